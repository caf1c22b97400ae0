//! Which events are worked by themselves, because workers died while they held them.
//!
//! A worker that dies takes all with it that it held, and nobody knows of which event it died. So events that were there more
//! than once are kept apart from all others, and from each other the more, the more often it happened: of 500 events that
//! were held together with one that kills, none is held by more than three workers that die.

use crate::model::ids::EventId;

/// Once is an accident: a deployment, a machine that went away. From this many crashes on, an event is a suspect.
pub const CRASHES_UNTIL_SUSPECT: i32 = 2;

/// From this many on, it is worked alone.
pub const CRASHES_UNTIL_ALONE: i32 = 3;

/// Suspects that are worked together before that.
const SUSPECTS_TOGETHER: usize = 25;

/// An event that more than one worker held and did not come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Suspect {
    /// The event.
    pub event_id: EventId,
    /// How often.
    pub crashes: i32,
}

/// Those whose turn it is, and those that have to come again. The less suspicious first, so that they are done before the next
/// crash.
#[must_use]
pub fn take_turns(mut suspects: Vec<Suspect>) -> (Vec<EventId>, Vec<EventId>) {
    suspects.sort_by_key(|suspect| (suspect.crashes, suspect.event_id.0));
    let together = suspects.iter().take_while(|suspect| suspect.crashes < CRASHES_UNTIL_ALONE).count();
    let turn = together.clamp(1, SUSPECTS_TOGETHER).min(suspects.len());
    let mut now: Vec<EventId> = suspects.into_iter().map(|suspect| suspect.event_id).collect();
    let later = now.split_off(turn);
    (now, later)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn suspects(crashes: &[(usize, i32)]) -> Vec<Suspect> {
        let many = crashes.iter().flat_map(|(count, crashes)| std::iter::repeat_n(*crashes, *count));
        many.enumerate()
            .map(|(n, crashes)| Suspect { event_id: EventId(Uuid::from_u128(n as u128)), crashes })
            .collect()
    }

    fn turn(crashes: &[(usize, i32)]) -> (usize, usize) {
        let (now, later) = take_turns(suspects(crashes));
        (now.len(), later.len())
    }

    #[test]
    fn who_crashed_twice_is_worked_in_small_groups_and_who_crashed_more_often_alone() {
        assert_eq!(turn(&[]), (0, 0));
        assert_eq!(turn(&[(3, 2)]), (3, 0));
        assert_eq!(turn(&[(400, 2)]), (25, 375));
        assert_eq!(turn(&[(1, 3)]), (1, 0));
        assert_eq!(turn(&[(24, 3)]), (1, 23));
        assert_eq!(turn(&[(10, 7), (4, 2)]), (4, 10));
    }

    #[test]
    fn one_that_kills_takes_nobody_through_more_than_three_crashes() {
        let killer = EventId(Uuid::from_u128(499));
        let mut waiting: Vec<Suspect> = suspects(&[(500, 2)]);
        let (mut rounds, mut most) = (0, 0);
        while !waiting.is_empty() && rounds < 200 {
            rounds += 1;
            let (now, _) = take_turns(waiting.clone());
            if now.contains(&killer) {
                for suspect in waiting.iter_mut().filter(|suspect| now.contains(&suspect.event_id)) {
                    suspect.crashes += 1;
                }
            } else {
                waiting.retain(|suspect| !now.contains(&suspect.event_id));
            }
            most = waiting
                .iter()
                .filter(|other| other.event_id != killer)
                .map(|other| other.crashes)
                .max()
                .unwrap_or(most);
        }
        assert_eq!((waiting.len(), waiting[0].event_id, most), (1, killer, 3));
    }
}

//! A function as it is configured, and the environment that Lambda makes of that.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;

use tokio::process::Command;

/// Made up, of the form that Lambda's have.
const REGION: &str = "eu-west-1";
const ACCOUNT: &str = "123456789012";
const VERSION: &str = "1";

/// The smallest that the functions of this repository are given.
const DEFAULT_MEMORY_MB: u32 = 256;

/// What is started for a function.
#[derive(Clone, Debug)]
pub struct Function {
    name: String,
    program: PathBuf,
    memory_mb: u32,
    variables: BTreeMap<String, String>,
}

impl Function {
    /// A function whose bootstrap is this program.
    pub fn new(name: impl Into<String>, program: impl Into<PathBuf>) -> Self {
        let (name, program) = (name.into(), program.into());
        Self { name, program, memory_mb: DEFAULT_MEMORY_MB, variables: BTreeMap::new() }
    }

    /// Sets one of the function's own variables.
    #[must_use]
    pub fn with(mut self, variable: &str, value: impl Into<String>) -> Self {
        self.variables.insert(variable.to_owned(), value.into());
        self
    }

    /// Takes one of the function's own variables away.
    #[must_use]
    pub fn without(mut self, variable: &str) -> Self {
        self.variables.remove(variable);
        self
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its ARN, as each event names it.
    pub(crate) fn arn(&self) -> String {
        format!("arn:aws:lambda:{REGION}:{ACCOUNT}:function:{}", self.name)
    }

    /// The process with its whole environment; nothing of ours leaks into it.
    pub(crate) fn command(&self, runtime_api: SocketAddr) -> Command {
        let task_root = self.program.parent().map(PathBuf::from).unwrap_or_default();
        let mut command = Command::new(&self.program);
        command
            .env_clear()
            .envs(self.reserved_variables(runtime_api))
            .env("LAMBDA_TASK_ROOT", &task_root)
            .envs(&self.variables)
            .current_dir(task_root)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// Source: "Defined runtime environment variables" in the developer guide of Lambda.
    fn reserved_variables(&self, runtime_api: SocketAddr) -> [(&'static str, String); 19] {
        [
            ("_HANDLER", "bootstrap".into()),
            ("AWS_ACCESS_KEY_ID", "test".into()),
            ("AWS_SECRET_ACCESS_KEY", "test".into()),
            ("AWS_SESSION_TOKEN", "test".into()),
            ("AWS_DEFAULT_REGION", REGION.into()),
            ("AWS_REGION", REGION.into()),
            ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", self.memory_mb.to_string()),
            ("AWS_LAMBDA_FUNCTION_NAME", self.name.clone()),
            ("AWS_LAMBDA_FUNCTION_VERSION", VERSION.into()),
            ("AWS_LAMBDA_INITIALIZATION_TYPE", "on-demand".into()),
            ("AWS_LAMBDA_LOG_FORMAT", "JSON".into()),
            ("AWS_LAMBDA_LOG_GROUP_NAME", format!("/aws/lambda/{}", self.name)),
            ("AWS_LAMBDA_LOG_LEVEL", "INFO".into()),
            ("AWS_LAMBDA_LOG_STREAM_NAME", format!("{}[{VERSION}]", self.name)),
            ("AWS_LAMBDA_RUNTIME_API", runtime_api.to_string()),
            ("LAMBDA_RUNTIME_DIR", "/var/runtime".into()),
            ("LANG", "en_US.UTF-8".into()),
            ("PATH", "/usr/local/bin:/usr/bin/:/bin:/opt/bin".into()),
            ("TZ", ":UTC".into()),
        ]
    }
}

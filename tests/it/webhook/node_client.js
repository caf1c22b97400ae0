// Signs requests with HubSpot's client library for Node, and checks signatures with it. Standard input: a list of requests
// {method, url, body, timestamp, secret, signature}. Standard output: for each, {v1, v2, v3} as the library signs it, and
// whether it takes `signature` for genuine.
'use strict'
const { Signature } = require('@hubspot/api-client')

const chunks = []
process.stdin.on('data', (chunk) => chunks.push(chunk))
process.stdin.on('end', () => {
  const requests = JSON.parse(Buffer.concat(chunks).toString('utf8'))
  process.stdout.write(JSON.stringify(requests.map(answer)))
})

function answer({ method, url, body, timestamp, secret, signature }) {
  const options = { url, requestBody: body, timestamp, clientSecret: secret }
  const signed = (version) => Signature.getSignature(method, version, options)
  const genuine = Signature.isValid({ ...options, method, signature, signatureVersion: 'v3' })
  return { v1: signed('v1'), v2: signed('v2'), v3: signed('v3'), genuine }
}

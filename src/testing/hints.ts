/** The repair of each failed check: a sentence, and its heading in the guide. */

const GUIDE = 'docs/plugins/testing.md'

/** The key is the name of the check; where kinds differ, kind and name. */
const HINTS: Readonly<Record<string, string>> = {
  'set up':
    'Give the plugin its address in baseURL, url or endpoint, and return the methods of its kind from "setup".',
  answer: 'Make the answer what the case expects, or correct the case.',
  'stream rules': 'Put text into delta.content, and give every choice an end.',
  usage:
    'Report the counts of the vendor once, as integers, with cached tokens inside prompt_tokens.',
  cuts: 'Read the bytes with host.sse, host.lines or host.readJson, and keep no state that depends on the pieces.',
  'cut off': "End an answer only with the vendor's own mark of its end.",
  'left out':
    'Give what an event says when it comes, and a finish_reason only where the vendor has said one.',
  'stream off':
    'Give the same answer whether "stream" is on or off; ask for the form that the cases show.',
  cancel: 'Pass the signal to every request, and let go of the response when the reader leaves.',
  'back-pressure': 'Return the flow of the response with steps, and read nothing ahead.',
  hang: 'Pass the signal to host.request.',
  errors:
    'Throw host.failure(response) for a status that is not 2xx, and host.fail for an answer that cannot be read.',
  events:
    'Send what the case expects, or correct the case; resolve when the receiver has the events, and leave out unknown names.',
  texts: 'Give one vector, rank or result for each text, as the gateway reads them.',
  conversations: 'Send everything that the client wrote, in the form that the vendor takes.',
  forwarded:
    'Send the member to the vendor, or name it in "ignores" if the vendor has no word for it.',
  repeat: 'Keep no state between calls: make a step with memory anew for each answer.',
  signal: 'Pass the signal to every request.',
  secrets: 'Leave keys, accounts and addresses out of errors and logs; host.failure does.',
  close: 'Release everything in "close", in less than five seconds.',
  time: 'Look at each character a bounded number of times.',
  memory: 'Bound what is kept between calls, and keep nothing of an answer that has ended.',
  console: 'Use host.log in place of the console.',
  'own connections': 'Use host.request or host.http in place of fetch and node:http.',
  uncaught: 'Await every promise, and throw in no callback.',
  handles: 'End timers, servers and workers in "close".',
  input: 'Give one verdict for each text, in their order.',
  output: 'Judge an answer as the case expects.',
  pads: 'Judge a text by what stands in it, wherever that is, and give places from its beginning.',
  'in force': 'Look at context.rules, and block only for rules that are there.',
  'hold-back': 'Let safeOffset stay before the first character that may belong to a match.',
  release: 'Let safeOffset follow the text, or set needsFullText if the guard needs all of it.',
  interleaved: 'Keep the state of a stream in the object that streamOutput returns.',
  local: 'Judge without requests, timers and promises, or say execution: "remote".',
  down: 'Throw when the service gives no verdict that can be read.',
  once: 'Ask once for each text, with host.request or host.http.',
  verdicts:
    'Throw when a member of the answer that the verdict needs is missing or of another type.',
  results: 'Make the results what the case expects, or correct the case.',
  query: 'Send query.text(limit) as it is, encoded for its place.',
  domains: 'Narrow by domains only as far as the service can exactly, and say so in "narrows".',
  fields: 'Give absolute http(s) addresses, and text without HTML.',
}

export function hintFor(kind: string, check: string): string {
  const hint = HINTS[`${kind} ${check}`] ?? HINTS[check] ?? 'See the note.'
  return `${hint} (${GUIDE}#${check.replaceAll(' ', '-')})`
}

export function allHints(): Readonly<Record<string, string>> {
  return HINTS
}

const IGNORABLE = /[\p{Default_Ignorable_Code_Point}\p{Cc}\ufeff]/gu
const KEPT = new Set(['\n', '\t', '\r'])
/** Invisible characters that shadow ASCII. Models read them. */
const TAGS = /[\u{e0020}-\u{e007e}]/gu
/** Markers of speakers in the chat templates of common model families. A space inside makes a marker ordinary text. */
const TEMPLATE =
  /<(?=[|｜])|[|｜](?=>)|<(?=\/?(?:start_of_turn|end_of_turn|s|bos|eos|think|tool_call|system|user|assistant|channel|message|BEGIN|END)\b)|<<(?=\/?SYS)|\[(?=\/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS)\])/gi

const BASE64 = /[A-Za-z0-9+/_-]{16,}={0,2}/g
const HEX = /\b(?:[0-9a-f]{2}[ :]?){8,}/gi
const PERCENT = /(?:%[0-9a-f]{2}[\w.~-]{0,3}){4,}/gi
/** Most decoded runs per text. */
const MAX_RUNS = 20
/** Share of ordinary characters that makes a decoding readable. */
const READABLE = 0.85

/**
 * Removes invisible characters and defuses markers of chat templates. Everything that a reader sees or a model reads
 * stays.
 */
export function sanitize(text: string): string {
  return text
    .replace(TAGS, (one) => String.fromCharCode(one.codePointAt(0)! - 0xe0000))
    .replace(IGNORABLE, (one) => (KEPT.has(one) ? one : ''))
    .replace(TEMPLATE, (one) => `${one} `)
}

/** Decodes runs of base64, hexadecimal and percent encoding. A decoding is never longer than its run. */
export function decodeRuns(text: string): string[] {
  const decodings = new Set<string>()
  for (const [pattern, decode] of DECODERS) {
    for (const [run] of text.matchAll(pattern)) {
      if (decodings.size >= MAX_RUNS) return [...decodings]
      const decoded = decode(run)
      if (decoded && isReadable(decoded)) decodings.add(sanitize(decoded))
    }
  }
  return [...decodings]
}

const DECODERS: readonly (readonly [RegExp, (run: string) => string | undefined])[] = [
  [BASE64, (run) => utf8(Buffer.from(run, 'base64'))],
  [HEX, (run) => utf8(Buffer.from(run.replace(/[ :]/g, ''), 'hex'))],
  [PERCENT, percentDecoded],
]

function percentDecoded(run: string): string | undefined {
  try {
    return decodeURIComponent(run)
  } catch {
    return undefined
  }
}

function utf8(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    return undefined
  }
}

/** Ordinary words that look encoded decode to noise. */
function isReadable(text: string): boolean {
  const readable = text.match(/[\p{L}\p{N}\p{P}\p{Zs}\n]/gu)?.length ?? 0
  return text.length >= 8 && readable / [...text].length >= READABLE && /\p{L}{2}/u.test(text)
}

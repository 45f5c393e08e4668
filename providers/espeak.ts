/**
 * Speech by eSpeak NG on this machine: free of charge, robotic, about a hundred languages. One process speaks one text.
 * https://github.com/espeak-ng/espeak-ng
 */
import * as v from 'valibot'
import { availableParallelism } from 'node:os'
import { execFile, spawn, type ChildProcessWithoutNullStreams } from 'node:child_process'
import type { Readable } from 'node:stream'
import { promisify } from 'node:util'
import { defineProvider, type Host, type Speech, type SpeechInput } from '../src/plugin.ts'
import { BoundedQueue } from './espeak/bounded-queue.ts'
import { voicesOption } from './shared/options.ts'
import { voiceName } from './shared/http.ts'

// Voices and speed, in eSpeak's terms.

/** OpenAI's voices, as eSpeak variants, which exist for every language. */
const VARIANTS: Readonly<Record<string, string>> = {
  alloy: 'f1',
  ash: 'm1',
  ballad: 'm2',
  cedar: 'm3',
  coral: 'f2',
  echo: 'm4',
  fable: 'm5',
  marin: 'f3',
  nova: 'f4',
  onyx: 'm7',
  sage: 'f5',
  shimmer: 'f2',
  verse: 'm6',
}

/** Words per minute of eSpeak at normal speed. */
const NORMAL = 175
/** Lowest and highest speed that eSpeak accepts. */
const MIN_SPEED = 80
const MAX_SPEED = 450

/** The speed factor of a request as words per minute, within eSpeak's limits. */
function wordsPerMinute(speed: number): number {
  return Math.round(Math.min(MAX_SPEED, Math.max(MIN_SPEED, NORMAL * speed)))
}

/** `de`, `en-gb-x-rp`, `en-us+f2`. A path does not match. */
const NAME = /^([a-z]{2,4}(?:-[A-Za-z0-9]{1,8})*)(\+[A-Za-z0-9]{1,20})?$/

/**
 * The eSpeak voice for a name that the client sent: a voice of OpenAI or of the configuration, or a language with or
 * without a variant (`de`, `de+f2`).
 * @param available languages that eSpeak speaks
 * @throws the failure class `bad_request` for an unknown voice
 */
function resolveVoice(
  requested: SpeechInput['voice'],
  language: string,
  own: Readonly<Record<string, string>>,
  available: ReadonlySet<string>,
  fail: Host['fail'],
): string {
  const name = voiceName(requested)
  const variant = VARIANTS[name]
  const voice = own[name] ?? (variant ? `${language}+${variant}` : name)
  const [, voiceLanguage] = NAME.exec(voice) ?? []
  if (voiceLanguage && available.has(voiceLanguage.toLowerCase())) return voice
  throw fail(
    'bad_request',
    `The voice is not known here. Ask for one of ${Object.keys(VARIANTS).join(', ')}, or for a language such as "de".`,
    { code: 'invalid_value', param: 'voice' },
  )
}

// Runs the program eSpeak NG.

const START_MS = 5000
/** The program loads a sound server's client, which would make a folder in the home of the user although nothing is played. */
const ENVIRONMENT = { ...process.env, PULSE_RUNTIME_PATH: '/dev/null' }

/**
 * The languages that the program speaks, in lower case.
 * @throws Error that says how to install the program, when it is missing
 */
async function listLanguages(command: string): Promise<ReadonlySet<string>> {
  const { stdout } = await run(command, ['--voices']).catch((cause: NodeJS.ErrnoException) => {
    // A folder of PATH that this user cannot read makes a missing program EACCES.
    const isMissing = cause.code === 'ENOENT' || (cause.code === 'EACCES' && !command.includes('/'))
    if (!isMissing) {
      throw new Error(`${command} could not be started: ${cause.code ?? cause.message}`, { cause })
    }
    throw new Error(
      `${command} is not installed. Install it ("apt-get install espeak-ng", "brew install espeak-ng"), or set options.command to its path.`,
      { cause },
    )
  })
  // The second column is the voice's own language. Further languages stand at the end of the line, as `(en 2)`.
  const languages = stdout
    .split('\n')
    .slice(1)
    .flatMap((line) => [
      line.trim().split(/\s+/)[1],
      ...Array.from(line.matchAll(/\(([\w-]+) \d+\)/g), ([, other]) => other),
    ])
  return new Set(languages.flatMap((language) => language?.toLowerCase() ?? []))
}

function run(command: string, args: readonly string[]): Promise<{ readonly stdout: string }> {
  return promisify(execFile)(command, args, {
    timeout: START_MS,
    encoding: 'utf8',
    env: ENVIRONMENT,
  })
}

/** A text, and how eSpeak is to speak it. */
interface Text {
  readonly command: string
  readonly voice: string
  /** Words per minute. */
  readonly speed: number
  readonly text: string
}

/**
 * Speaks a text. The process ends when the sound is complete, when the signal aborts, or when the reader stops reading.
 * Then `onExit` is called.
 * @throws the failure class `upstream_error` when no sound comes out; the signal's reason
 */
async function speak(
  { command, voice, speed, text }: Text,
  signal: AbortSignal,
  onExit: () => void,
  fail: Host['fail'],
): Promise<Speech> {
  if (signal.aborted) {
    onExit()
    throw signal.reason
  }
  // Standard input keeps the text from being taken for an option.
  const args = ['--stdin', '--stdout', '-b', '1', '-v', voice, '-s', String(speed)]
  const child = spawn(command, args, { env: ENVIRONMENT, stdio: ['pipe', 'pipe', 'pipe'] })
  const kill = () => void child.kill('SIGKILL')
  signal.addEventListener('abort', kill, { once: true })
  const ended = new Promise<Error | undefined>((resolve) => {
    child.on('error', resolve)
    child.once('close', (code) =>
      resolve(code === 0 ? undefined : new Error(`exit code ${code ?? 'none'}`)),
    )
  }).finally(() => {
    signal.removeEventListener('abort', kill)
    onExit()
  })
  // Diagnostics are not for clients, and a full pipe would block the process.
  child.stderr.resume()
  // The process may end before it has read all of the text.
  child.stdin.on('error', () => {})
  child.stdin.end(text)
  const sound = new SoundOutput(child, ended, signal, fail)
  try {
    return { pcmSampleRate: await sound.rate(), bytes: sound }
  } catch (error) {
    kill()
    throw error
  }
}

/** A RIFF header with only `fmt ` and `data`, as eSpeak writes it. */
const HEADER_BYTES = 44

/** The samples of a process. The process ends when the reader stops early. */
class SoundOutput implements AsyncIterable<Uint8Array> {
  readonly #child: ChildProcessWithoutNullStreams
  readonly #ended: Promise<Error | undefined>
  readonly #signal: AbortSignal
  readonly #fail: Host['fail']
  readonly #output: AsyncIterator<Buffer>
  #rest: Buffer | undefined

  constructor(
    child: ChildProcessWithoutNullStreams,
    ended: Promise<Error | undefined>,
    signal: AbortSignal,
    fail: Host['fail'],
  ) {
    this.#child = child
    this.#ended = ended
    this.#signal = signal
    this.#fail = fail
    this.#output = (child.stdout as Readable)[Symbol.asyncIterator]()
  }

  /** Samples per second, from the header. */
  async rate(): Promise<number> {
    let head = Buffer.alloc(0)
    while (head.length < HEADER_BYTES) {
      const { value, done } = await this.#next()
      if (done) throw this.#failure(await this.#ended)
      head = Buffer.concat([head, value])
    }
    if (head.toString('latin1', 0, 4) !== 'RIFF' || head.toString('latin1', 36, 40) !== 'data') {
      throw this.#failure(new Error('no sound'))
    }
    this.#rest = head.subarray(HEADER_BYTES)
    return head.readUInt32LE(24)
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void, undefined> {
    try {
      if (this.#rest?.length) yield this.#rest
      for (let read = await this.#next(); !read.done; read = await this.#next()) {
        yield read.value
      }
      const error = await this.#ended
      if (error) throw this.#failure(error)
    } finally {
      this.#child.kill('SIGKILL')
    }
  }

  async #next(): Promise<IteratorResult<Buffer>> {
    try {
      return await this.#output.next()
    } catch (error) {
      throw this.#failure(error)
    }
  }

  #failure(cause: unknown): unknown {
    if (this.#signal.aborted) return this.#signal.reason
    return this.#fail('upstream_error', 'The text could not be spoken.', { cause })
  }
}

const options = v.strictObject({
  /** Name or path of the program. */
  command: v.optional(v.pipe(v.string(), v.nonEmpty()), 'espeak-ng'),
  /**
   * How many texts are spoken at once; further ones wait. By default four per processor, because most processes wait
   * for the client to read.
   */
  processes: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1))),
  /** A name such as `de+f2` for a voice of eSpeak. */
  voices: voicesOption,
})

const deploymentOptions = v.strictObject({
  /** Language of voices that do not name one, such as `de` or `en-gb`. */
  language: v.optional(v.pipe(v.string(), v.nonEmpty()), 'en-us'),
})
type DeploymentOptions = v.InferOutput<typeof deploymentOptions>

export default defineProvider({
  name: 'espeak',
  options,
  deploymentOptions,
  async setup({ command, processes = 4 * availableParallelism(), voices }, { fail }) {
    const available = await listLanguages(command)
    const queue = new BoundedQueue(processes)
    return {
      address: null,
      async speech({ input, options, signal }) {
        const { response_format: format } = input
        if (format !== 'wav' && format !== 'pcm') {
          throw fail(
            'bad_request',
            `The model cannot make sound in the format ${format}. Ask for wav or pcm.`,
            { code: 'unsupported_value', param: 'response_format' },
          )
        }
        const { language } = options as DeploymentOptions
        const voice = resolveVoice(input.voice, language, voices, available, fail)
        const release = await queue.enter(signal, () =>
          fail('overloaded', 'Too many texts are waiting to be spoken.'),
        )
        const speed = wordsPerMinute(input.speed ?? 1)
        return speak({ command, voice, speed, text: input.input }, signal, release, fail)
      },
    }
  },
})

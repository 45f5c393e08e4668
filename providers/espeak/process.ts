/** Runs the program eSpeak NG. */
import { execFile, spawn, type ChildProcessWithoutNullStreams } from 'node:child_process'
import type { Readable } from 'node:stream'
import { promisify } from 'node:util'
import type { Host, Speech } from '../../src/plugin.ts'

const START_MS = 5000
/** The program loads a sound server's client, which would make a folder in the home of the user although nothing is played. */
const ENVIRONMENT = { ...process.env, PULSE_RUNTIME_PATH: '/dev/null' }

/**
 * The languages that the program speaks, in lower case.
 * @throws Error that says how to install the program, when it is missing
 */
export async function listLanguages(command: string): Promise<ReadonlySet<string>> {
  const { stdout } = await run(command, ['--voices']).catch((cause: NodeJS.ErrnoException) => {
    if (cause.code !== 'ENOENT') {
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
export async function speak(
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

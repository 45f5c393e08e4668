/** The program itself: what it can speak, and speaking. */
import { execFile, spawn, type ChildProcessWithoutNullStreams } from 'node:child_process'
import type { Readable } from 'node:stream'
import { promisify } from 'node:util'
import type { Host, Speech } from '../../src/plugin.ts'

const START_MS = 5000

/**
 * The languages that the program speaks, in lower case.
 * @throws Error that says what to install when there is no such program
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
  // A line has its own language in the second column, and others it can stand for at the end: `(en 2)`.
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
  return promisify(execFile)(command, args, { timeout: START_MS, encoding: 'utf8' })
}

export interface Text {
  readonly command: string
  readonly voice: string
  /** Words a minute. */
  readonly speed: number
  readonly text: string
}

/**
 * Speaks a text. The process ends with the sound, with the signal, and with whoever reads it; then `left` is called.
 * @throws what `fail` makes
 */
export async function speak(
  { command, voice, speed, text }: Text,
  signal: AbortSignal,
  left: () => void,
  fail: Host['fail'],
): Promise<Speech> {
  if (signal.aborted) {
    left()
    throw signal.reason
  }
  // The text goes in by a pipe, where it cannot be taken for an option.
  const args = ['--stdin', '--stdout', '-b', '1', '-v', voice, '-s', String(speed)]
  const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'pipe'] })
  const kill = () => void child.kill('SIGKILL')
  signal.addEventListener('abort', kill, { once: true })
  const ended = new Promise<Error | undefined>((resolve) => {
    child.on('error', resolve)
    child.once('close', (code) =>
      resolve(code === 0 ? undefined : new Error(`exit code ${code ?? 'none'}`)),
    )
  }).finally(() => {
    signal.removeEventListener('abort', kill)
    left()
  })
  // What it complains about is not for clients, and must not fill the pipe.
  child.stderr.resume()
  // It may end without having read all of it.
  child.stdin.on('error', () => {})
  child.stdin.end(text)
  const sound = new Sound(child, ended, signal, fail)
  try {
    return { pcmSampleRate: await sound.rate(), bytes: sound }
  } catch (error) {
    kill()
    throw error
  }
}

/** Of a RIFF header with nothing but `fmt ` and `data`, which is what the program writes. */
const HEADER_BYTES = 44

/** The samples that come out of the process. Leaving them early ends it. */
class Sound implements AsyncIterable<Uint8Array> {
  readonly #child: ChildProcessWithoutNullStreams
  readonly #ended: Promise<Error | undefined>
  readonly #signal: AbortSignal
  readonly #fail: Host['fail']
  readonly #pieces: AsyncIterator<Buffer>
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
    this.#pieces = (child.stdout as Readable)[Symbol.asyncIterator]()
  }

  /** Samples a second, out of the header. */
  async rate(): Promise<number> {
    let head = Buffer.alloc(0)
    while (head.length < HEADER_BYTES) {
      const { value, done } = await this.#next()
      if (done) throw this.#broken(await this.#ended)
      head = Buffer.concat([head, value])
    }
    if (head.toString('latin1', 0, 4) !== 'RIFF' || head.toString('latin1', 36, 40) !== 'data') {
      throw this.#broken(new Error('no sound'))
    }
    this.#rest = head.subarray(HEADER_BYTES)
    return head.readUInt32LE(24)
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void, undefined> {
    try {
      if (this.#rest?.length) yield this.#rest
      for (let piece = await this.#next(); !piece.done; piece = await this.#next()) {
        yield piece.value
      }
      const failure = await this.#ended
      if (failure) throw this.#broken(failure)
    } finally {
      this.#child.kill('SIGKILL')
    }
  }

  async #next(): Promise<IteratorResult<Buffer>> {
    try {
      return await this.#pieces.next()
    } catch (error) {
      throw this.#broken(error)
    }
  }

  #broken(cause: unknown): unknown {
    if (this.#signal.aborted) return this.#signal.reason
    return this.#fail('upstream_error', 'The text could not be spoken.', { cause })
  }
}

import { spawnSync } from 'node:child_process'
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import espeak from '../../providers/espeak.ts'
import { BoundedQueue } from '../../providers/espeak/bounded-queue.ts'
import { secondsOf } from '../../src/endpoints/audio/length.ts'
import { failureOf, setUp } from './_audio.ts'

const installed = spawnSync('espeak-ng', ['--version']).status === 0
const folder = await mkdtemp(join(tmpdir(), 'espeak-'))
afterAll(() => rm(folder, { recursive: true }))

const SENTENCE = 'The quick brown fox jumps over the lazy dog.'

if (!installed) process.stderr.write('SKIPPED espeak: espeak-ng is not installed\n')
describe.skipIf(!installed)('espeak', () => {
  it('speaks a sentence as a wav file with its length', async () => {
    await using plugin = await setUp(espeak, {})
    const wav = await plugin.speak({ input: SENTENCE, response_format: 'wav' })
    expect(wav.readUInt32LE(4)).toBe(wav.length - 8)
    expect([wav.readUInt16LE(22), wav.readUInt16LE(34)]).toEqual([1, 16])
    const seconds = (wav.length - 44) / 2 / wav.readUInt32LE(24)
    expect(secondsOf({ bytes: wav, mediaType: 'audio/wav' })).toBeCloseTo(seconds, 3)
    expect(seconds).toBeGreaterThan(2)
    expect(seconds).toBeLessThan(5)
    expect(isLoud(wav.subarray(44))).toBe(true)
  })

  it('speaks the same text as samples at 24 kHz', async () => {
    await using plugin = await setUp(espeak, {})
    const wav = await plugin.speak({ input: SENTENCE, response_format: 'wav' })
    const pcm = await plugin.speak({ input: SENTENCE, response_format: 'pcm' })
    const seconds = (wav.length - 44) / 2 / wav.readUInt32LE(24)
    expect(pcm.length / 2 / 24_000).toBeCloseTo(seconds, 3)
    expect(isLoud(pcm)).toBe(true)
  })

  it('speaks faster and slower', async () => {
    await using plugin = await setUp(espeak, {})
    const lengths = []
    for (const speed of [0.5, 1, 2]) {
      const wav = await plugin.speak({ input: SENTENCE, response_format: 'wav', speed })
      lengths.push(wav.length)
    }
    expect(lengths[0]).toBeGreaterThan(lengths[1]! * 1.4)
    expect(lengths[2]).toBeLessThan(lengths[1]! * 0.75)
  })

  it('knows voices by OpenAI’s names, by the configuration’s, and by language', async () => {
    await using plugin = await setUp(espeak, { voices: { anna: 'de+f2' } })
    const speak = (voice: string, language = 'en-us') =>
      plugin.speak({ input: SENTENCE, response_format: 'wav', voice }, { options: { language } })
    const [alloy, onyx, anna, german, sage] = await Promise.all([
      speak('alloy'),
      speak('onyx'),
      speak('anna'),
      speak('de+f2'),
      speak('shimmer', 'de'),
    ])
    expect(alloy.equals(onyx)).toBe(false)
    expect(anna.equals(german)).toBe(true)
    expect(sage.equals(german)).toBe(true)
    // A language that the voice lists as a second one.
    expect(isLoud((await speak('en')).subarray(44))).toBe(true)
    for (const voice of ['nobody', '../../etc/passwd', '-w/tmp/x', 'en-us+../x']) {
      expect(await failureOf(speak(voice))).toMatchObject({ code: 'invalid_value', param: 'voice' })
    }
  })

  it('does not take a text for options or markup', async () => {
    await using plugin = await setUp(espeak, {})
    const wav = await plugin.speak({ input: '--version', response_format: 'wav' })
    expect(isLoud(wav.subarray(44))).toBe(true)
  })

  it('supports only wav and pcm', async () => {
    await using plugin = await setUp(espeak, {})
    expect(await failureOf(plugin.speak())).toMatchObject({
      status: 400,
      code: 'unsupported_value',
      param: 'response_format',
    })
  })
})

describe('the process behind it', () => {
  /** A fake program that lists one language and then runs the script. */
  async function program(name: string, script: string): Promise<string> {
    const path = join(folder, name)
    const list = 'if [ "$1" = --voices ]; then printf "Pty Language\\n 5 en-us\\n"; exit; fi\n'
    await writeFile(path, `#!/bin/sh\n${list}${script}\n`)
    await chmod(path, 0o755)
    return path
  }
  const HEADER = String.raw`printf 'RIFF\044\000\000\000WAVEfmt \020\000\000\000\001\000\001\000\300\135\000\000\200\273\000\000\002\000\020\000data\000\000\000\000'`
  const alive = (pid: number) => {
    try {
      return process.kill(pid, 0)
    } catch {
      return false
    }
  }
  const pidIn = async (path: string) => Number(await readFile(path, 'utf8').catch(() => '0'))

  it('tells what to install when it is missing', async () => {
    await expect(setUp(espeak, { command: 'no-such-espeak' })).rejects.toThrow(
      /no-such-espeak is not installed. Install it/,
    )
  })

  it('is killed when the client disconnects', async () => {
    const pid = join(folder, 'hang.pid')
    const command = await program('hang', `echo $$ > ${pid}\nexec sleep 60`)
    await using plugin = await setUp(espeak, { command })
    const leaving = new AbortController()
    const speaking = plugin.speak({ response_format: 'pcm' }, { signal: leaving.signal })
    await expect.poll(() => pidIn(pid)).toBeGreaterThan(0)
    leaving.abort(new Error('gone'))
    await expect(speaking).rejects.toThrow('gone')
    const child = await pidIn(pid)
    await expect.poll(() => alive(child)).toBe(false)
  })

  it('is killed when its reader stops in the middle', async () => {
    const pid = join(folder, 'endless.pid')
    const command = await program('endless', `echo $$ > ${pid}\n${HEADER}\nexec cat /dev/zero`)
    await using plugin = await setUp(espeak, { command })
    const request = {
      input: { input: 'Hi.', voice: 'alloy', response_format: 'pcm' as const },
      model: 'm',
      options: { language: 'en-us' },
      requestId: 'req_1',
      signal: new AbortController().signal,
      log: undefined as never,
    }
    const { bytes } = await plugin.provider.speech!(request)
    for await (const piece of bytes) if (piece.length > 0) break
    const child = await pidIn(pid)
    await expect.poll(() => alive(child)).toBe(false)
  })

  it('is a failure when it exits with an error', async () => {
    for (const [name, script] of [
      ['silent', 'exit 1'],
      ['wordy', 'echo "no such voice, and a long enough text to be a header of a file"'],
      ['breaks', `${HEADER}\nhead -c 1000 /dev/zero\nexit 3`],
    ] as const) {
      const command = await program(name, script)
      await using plugin = await setUp(espeak, { command })
      const failure = await failureOf(plugin.speak({ response_format: 'wav' }))
      expect(failure).toMatchObject({ failure: 'upstream_error', status: 502 })
    }
  })

  it('waits for a slot, and hands it to the next', async () => {
    const line = new BoundedQueue(1)
    const forever = new AbortController().signal
    const full = () => new Error('full')
    const first = await line.enter(forever, full)
    const order: number[] = []
    const second = line.enter(forever, full).then((leave) => (order.push(2), leave))
    const impatient = new AbortController()
    const third = line.enter(impatient.signal, full)
    const fourth = line.enter(forever, full).then((leave) => (order.push(4), leave))
    impatient.abort(new Error('gone'))
    await expect(third).rejects.toThrow('gone')
    first()
    first()
    ;(await second)()
    ;(await fourth)()
    expect(order).toEqual([2, 4])
    const crowd = Array.from({ length: 17 }, () => line.enter(forever, full))
    await expect(line.enter(forever, full)).rejects.toThrow('full')
    for (const one of crowd) (await one)()
    ;(await line.enter(forever, full))()
  })
})

function isLoud(samples: Buffer): boolean {
  for (let i = 0; i + 1 < samples.length; i += 2) {
    if (Math.abs(samples.readInt16LE(i)) > 3000) return true
  }
  return false
}

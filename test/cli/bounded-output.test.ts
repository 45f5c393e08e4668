import { Writable } from 'node:stream'
import { expect, it } from 'vitest'
import { boundOutput } from '../../src/cli/bounded-output.ts'

/** A stream whose reader takes a piece when it is told to. */
function slow() {
  const read: string[] = []
  const waiting: (() => void)[] = []
  const stream = new Writable({
    highWaterMark: 10,
    decodeStrings: false,
    write(text: string, _encoding, done) {
      read.push(text)
      waiting.push(done)
    },
  })
  const readAll = async () => {
    while (waiting.length > 0) {
      waiting.shift()!()
      await new Promise((resolve) => void setImmediate(resolve))
    }
  }
  return { stream, read, readAll }
}

it('output that is not read is dropped above the bound, and counted', async () => {
  const { stream, read, readAll } = slow()
  const output = boundOutput(stream, 100)
  for (let line = 0; line < 50; line++) stream.write(`${String(line).padStart(9, '0')}\n`)
  expect(stream.writableLength).toBe(110)
  await readAll()
  stream.write('after\n')
  await readAll()
  expect(read).toHaveLength(13)
  expect(read.slice(-2)).toEqual([expect.stringMatching(/^39 writes were dropped/), 'after\n'])
  output.release()
})

it('the end waits for what is read, and for no reader that has stopped', async () => {
  const { stream, read, readAll } = slow()
  const output = boundOutput(stream)
  for (const word of ['one', 'two', 'three']) stream.write(word)
  await output.flush(1)
  const flushed = output.flush(60_000)
  await readAll()
  await flushed
  expect(read.join('')).toBe('onetwothree')
})

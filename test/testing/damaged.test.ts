/** Damaged streams of the kit: what is put into frames of a binary stream is what it says it is. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { readFrames } from '../../providers/bedrock/frames.ts'
import { flowOf } from '../../src/stream/flow.ts'
import { damaged } from '../../src/testing/damaged.ts'
import { boundariesOf, cutAt } from '../../src/testing/splits.ts'
import { parseHttp } from '../../src/testing/transcripts.ts'

const FILE = join(import.meta.dirname, '../providers/transcripts/bedrock/tools.http')
const fail = (class_: string, message?: string) => new Error(`${class_}: ${message}`)

function eventsOf(path: string): Uint8Array[] {
  const { body, headers } = parseHttp(readFileSync(path), path)
  return cutAt(body, boundariesOf(body, headers['content-type']!)).filter(
    ({ length }) => length > 0,
  )
}

async function framesIn(events: readonly Uint8Array[]) {
  const names: string[] = []
  for await (const { name } of flowOf(...events).through(readFrames(fail as never)))
    names.push(name)
  return names
}

describe('a binary stream', () => {
  const events = eventsOf(FILE)
  const ways = damaged(events, true)

  it('gets frames that are whole but unknown, no JSON, cut inside, and with a wrong checksum', () => {
    const kinds = new Set(ways.map(([what]) => what.replaceAll(/\d+/g, 'n')))
    expect(kinds).toEqual(
      new Set([
        'an event of an unknown kind',
        'an event that is no JSON',
        'half of event n',
        'a changed byte in event n',
      ]),
    )
  })

  it('an unknown frame can be read, and all around it', async () => {
    const [, some] = ways[0]!
    const names = await framesIn(some)
    const whole = await framesIn(events)
    expect(names.filter((name) => !/^z+$/.test(name))).toEqual(whole)
    expect(names).toHaveLength(whole.length + 1)
  })

  it.each(ways.slice(1))('%s cannot be read', async (_, some) => {
    await expect(framesIn(some)).rejects.toThrow('upstream_error')
  })
})

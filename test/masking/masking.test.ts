/** Masking and putting back as laws over texts, without a gateway. */
import fc from 'fast-check'
import { beforeAll, describe, expect, it } from 'vitest'
import { CLASSES } from '../../plugins/guards/pii/classes.ts'
import { createGuard } from '../../plugins/guards/pii/guard.ts'
import { makeMasking, type TextForm } from '../../src/masking/masking.ts'
import type { Restorer } from '../../src/masking/restore.ts'
import type { Guard, GuardContext, GuardHost } from '../../src/plugin.ts'
import { runs } from '../_runs.ts'
import { SEED } from '../_seed.ts'
import { SENTENCES, TEXT, VALUES } from './_values.ts'

let locate: NonNullable<Guard['locate']>
beforeAll(async () => {
  const host = { yieldIfDue() {} } as unknown as GuardHost
  const guard = await createGuard({ entities: CLASSES, ignore: [], weak: false }, host)
  locate = guard.locate
})

const numberOf = (folded: string) => {
  let number = 7
  for (const character of folded) number = (number * 31 + character.codePointAt(0)!) >>> 0
  return number
}

async function masked(texts: readonly (string | readonly string[])[], form: TextForm = 'plain') {
  const { masking, input } = await makeMasking(
    (change) => texts.map((one) => change(typeof one === 'string' ? [one] : one, form)),
    (text) => locate(text, {} as GuardContext),
    numberOf,
  )
  return { masking, texts: input.map((one) => one.join('')), parts: input }
}

const whole = (restorer: Restorer, text: string) => restorer.push(text) + restorer.end()

function inPieces(restorer: Restorer, text: string, cuts: readonly number[]): string {
  let out = ''
  let from = 0
  for (const cut of cuts) {
    out += restorer.push(text.slice(from, cut))
    from = cut
  }
  return out + restorer.push(text.slice(from)) + restorer.end()
}

/** A cheap generator, so that chunkings take little time. */
function* random(seed: number): Generator<number, never> {
  for (let state = seed; ;) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    yield state
  }
}

const ALTERED = (name: string): readonly string[] => [
  name,
  name.toLowerCase(),
  name.slice(1, -1),
  name.replaceAll('_', String.raw`\_`),
  String.raw`\[${name.slice(1, -1).replaceAll('_', String.raw`\_`)}\]`,
  name.replaceAll('_', '-'),
  `${name.slice(1, -1).replaceAll('_', ' ')}`,
]

describe('masking', () => {
  it('has no value in what a vendor gets, and the text again from what it says', async () => {
    const { masking, texts } = await masked([TEXT])
    for (const value of VALUES) expect(texts[0]).not.toContain(value)
    for (const [, value, kind] of SENTENCES) {
      expect([...masking.byNumber.values()].find((one) => one.value === value)?.kind).toBe(kind)
    }
    expect(whole(masking.restorer('plain'), texts[0]!)).toBe(TEXT)
    expect(masking.alteredCount).toBe(0)
  })

  it('says the same for tens of thousands of chunkings, in text, arguments and reasoning', async () => {
    const { masking, texts } = await masked([TEXT])
    const names = [...masking.byNumber.values()].map(({ text }) => text)
    const forms = names.flatMap(ALTERED)
    const says = `${texts[0]} 😀${forms.join('🏳️‍🌈 x[')}[[EMAIL_ [EMAIL_12 [email\\`
    const json = JSON.stringify({ say: says, [forms[2]!]: [forms], quote: `"${forms[0]}"` })
    const escaped = json.replaceAll('[', String.raw`\u005b`).replaceAll('E', String.raw`\u0045`)
    const long = [
      [says, 'plain'],
      [json, 'json'],
      [escaped, 'json'],
      [says, 'exact'],
    ] as const
    const short = forms.flatMap((one) => [
      [`${one}.`, 'plain'] as const,
      [`["${one.replace('_', String.raw`\u005f`)}"]`, 'json'] as const,
    ])
    const next = random(SEED)
    const number = () => next.next().value >>> 8
    let chunkings = 0
    const hold = (text: string, form: 'plain' | 'json' | 'exact', count: number, gap: number) => {
      const expected = whole(masking.restorer(form), text)
      const every = [...text].map((_, index) => index + 1)
      expect(inPieces(masking.restorer(form), text, every)).toBe(expected)
      for (let run = 0; run < count; run++) {
        const places: number[] = []
        for (let at = 1 + (number() % gap); at < text.length; at += 1 + (number() % gap))
          places.push(at)
        chunkings++
        if (inPieces(masking.restorer(form), text, places) === expected) continue
        expect.fail(`seed ${SEED}, ${form}, ${text}, cuts ${places.join(',')}`)
      }
    }
    for (const [text, form] of long) for (const gap of [3, 20, 80]) hold(text, form, runs(10), gap)
    const most = runs(30_000)
    const times = Math.ceil(most / short.length)
    for (const [text, form] of short) hold(text, form, times, 14)
    expect(chunkings).toBeGreaterThanOrEqual(most)
  })

  it('puts values back for what models make of names, and for nothing else', async () => {
    const { masking, texts } = await masked(['Write to mira.lowe@kestrelmail.net.'])
    const name = texts[0]!.slice(9, -1)
    const restored = (text: string) => whole(masking.restorer('plain'), text)
    for (const form of ALTERED(name)) {
      expect(restored(`Ask ${form}, please`)).toBe('Ask mira.lowe@kestrelmail.net, please')
    }
    const core = name.slice(1, -1)
    const number = core.slice(-4)
    const other = String((Number(number) + 1) % 10_000).padStart(4, '0')
    for (const text of [
      `x${core}`,
      `${core}x`,
      `${core}5`,
      `[EMAIL_${other}]`,
      `[PHONE_${number}]`,
      `[EMAIL_${number.slice(1)}]`,
      `my_${core}`,
      number,
    ]) {
      expect(restored(text)).toBe(text)
    }
    expect(restored(`是${name}谢谢 ${name}${name}`)).toBe(
      '是mira.lowe@kestrelmail.net谢谢 mira.lowe@kestrelmail.netmira.lowe@kestrelmail.net',
    )
    expect(whole(masking.restorer('exact'), name.toLowerCase())).toBe(name.toLowerCase())
  })

  it('never restores what a client wrote itself in the form of a name', async () => {
    const first = await masked(['mira.lowe@kestrelmail.net'])
    const [name] = first.texts
    for (const literal of ALTERED(name!)) {
      const { masking, texts } = await masked([`${literal} and mira.lowe@kestrelmail.net`])
      expect(texts[0]!.endsWith(name!)).toBe(false)
      expect(whole(masking.restorer('plain'), texts[0]!)).toBe(
        `${literal} and mira.lowe@kestrelmail.net`,
      )
    }
  })

  it('gives a value the same name in all calls, whatever stands beside it', async () => {
    const one = await masked(['mira.lowe@kestrelmail.net'])
    const other = await masked([TEXT, 'MIRA.LOWE@kestrelmail.net'])
    expect(other.texts[1]).toBe(one.texts[0])
  })

  it('replaces a value wherever else it stands as a word, and over the border of two texts', async () => {
    const { masking, texts } = await masked([
      'My name is Zoltan Kerekes.',
      'Sent by zoltan kerekes to Zoltan Kerekesy',
      ['Card 4111 1111 ', '1111 1111, thanks'],
    ])
    const name = [...masking.byNumber.values()][0]!.text
    expect(texts[1]).toBe(`Sent by ${name} to Zoltan Kerekesy`)
    expect(texts[2]).toMatch(/^Card \[CREDIT_CARD_\d{4}\], thanks$/)
    const compact = await masked(['Card 4111 1111 1111 1111', 'number=4111111111111111'])
    expect(compact.texts[1]).toMatch(/^number=\[CREDIT_CARD_\d{4}\]$/)
  })

  it('keeps apart what only looks alike without its separators', async () => {
    const { masking } = await masked([
      'ip address 121.121.45.7',
      'ip address 12.112.145.7',
      'a1@kestrelmail.net a.1@kestrelmail.net',
    ])
    expect(masking.count).toBe(4)
  })

  it('writes anew only the literals of JSON that change', async () => {
    const json =
      '{ "n" : 1.0, "card":4111111111111111 ,"to":"mira\\u002elowe@kestrelmail.net", "x":"\\u0041" }'
    const { masking, texts } = await masked([json], 'json')
    expect(texts[0]).toMatch(
      /^\{ "n" : 1\.0, "card":"\[CREDIT_CARD_\d{4}\]" ,"to":"\[EMAIL_\d{4}\]", "x":"\\u0041" \}$/,
    )
    const said = JSON.parse(whole(masking.restorer('json'), texts[0]!))
    expect(said.to).toBe('mira.lowe@kestrelmail.net')
  })

  it('keeps JSON whole where a value has quotes', async () => {
    const { masking, texts } = await masked(['"ada lowe"@kestrelmail.net'])
    const json = JSON.stringify({ to: texts[0] })
    expect(JSON.parse(whole(masking.restorer('json'), json))).toEqual({
      to: '"ada lowe"@kestrelmail.net',
    })
  })

  it('masks any text around values, and gives it back', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(
          fc.oneof(
            fc.constantFrom(...SENTENCES.map(([one]) => one)),
            fc.string({ unit: 'binary' }),
          ),
          {
            maxLength: 8,
          },
        ),
        async (pieces) => {
          const text = pieces.join('\n')
          const { masking, texts } = await masked([text])
          const found = [...masking.byNumber.values()]
          const back = whole(masking.restorer('plain'), texts[0]!)
          expect(back.toLowerCase()).toBe(text.toLowerCase())
          for (const { value } of found) if (value.length > 5) expect(texts[0]).not.toContain(value)
        },
      ),
      { numRuns: runs(17) },
    )
  })

  it('has room for thousands of values, and for a request that has all names', async () => {
    const values = Array.from({ length: 3000 }, (_, i) => `person${i}@kestrelmail.net`)
    const text = values.join('\n')
    const many = await masked([text])
    expect(many.masking.count).toBe(3000)
    expect(whole(many.masking.restorer('plain'), many.texts[0]!)).toBe(text)
    const all = Array.from({ length: 10_000 }, (_, i) => `[EMAIL_${String(i).padStart(4, '0')}]`)
    const full = await masked([all.join(' '), 'mira.lowe@kestrelmail.net'])
    expect(full.texts[1]).toMatch(/^\[EMAIL_\d{6}\]$/)
  })
})

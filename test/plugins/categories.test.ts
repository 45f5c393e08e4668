import * as fc from 'fast-check'
import { beforeAll, describe, expect, it } from 'vitest'
import categories from '../../plugins/guards/categories.ts'
import {
  CueIndex,
  parseLexicon,
  readLexicons,
  foldInto,
} from '../../plugins/guards/categories/cue-index.ts'
import { Sentences } from '../../plugins/guards/categories/score.ts'
import type { Guard, GuardContext, TextItem } from '../../src/plugin.ts'
import { guarded, readStream, streamOf, wholeOf } from '../guard/_setup.ts'
import {
  everything,
  measure,
  newGuards,
  precisionOf,
  recallOf,
  share,
  verdictOf,
} from '../eval/measure.ts'
import { LANGUAGES, readSet, recordedSet } from '../eval/sets.ts'
import { runs } from '../_runs.ts'

let guard: Guard
beforeAll(async () => {
  guard = (await newGuards()).categories
})

const STREAM = { channel: 'content', choice: 0, index: 0 } as const

/** How far the guard releases a text in these pieces, and why it stops. */
function follow(pieces: readonly string[]) {
  const check = guard.streamOutput!(STREAM, everything)
  for (const step of [...pieces.map((piece) => () => check.push(piece)), () => check.end()]) {
    const { safeOffset: safe, verdict } = step() as any
    if (verdict) return { safe, verdict }
  }
  return { safe: pieces.join('').length, verdict: undefined }
}

describe('how often the guard is right', () => {
  // The floors are slightly below the measured values. A drop has to be explained or undone. `npm run eval:guard` has more.
  it.each([
    ['texts that the cues were made with', readSet('open', 'first.jsonl'), 0.92, 0.98, 0.9],
    ['texts written afterwards', readSet('open', 'later.jsonl'), 0.7, 0.95, 0.62],
    ['recorded texts', recordedSet(), 0.9, 0.95, 0.85],
  ])('stays above its floors: %s', async (name, texts, recall, precision, english) => {
    if (texts.length === 0) {
      process.stderr.write(`skipped: there are no ${name}\n`)
      return
    }
    const findings = await measure(texts)
    const inputs = findings.filter(({ line }) => line.lang === 'en' && line.side === 'input')
    expect(share(recallOf(findings))).toBeGreaterThanOrEqual(recall)
    expect(share(precisionOf(findings))).toBeGreaterThanOrEqual(precision)
    expect(share(recallOf(inputs))).toBeGreaterThanOrEqual(english)
  })
})

describe('the result for a text', () => {
  it('is the same however the text is split', () => {
    const words = some()
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom(...words), { minLength: 1, maxLength: 5 }),
        fc.array(fc.nat(400), { maxLength: 12 }),
        (texts, cuts) => {
          const text = texts.join(' ')
          const ends = [...new Set(cuts)].filter((end) => end < text.length).sort((a, b) => a - b)
          const pieces = [...ends, text.length].map((end, i) => text.slice(ends[i - 1] ?? 0, end))
          expect(follow(pieces)).toEqual(follow([text]))
          expect(follow([...text])).toEqual(follow([text]))
        },
      ),
      { numRuns: runs(20) },
    )
  })

  it('releases the text before the blocked sentence, and nothing of it', () => {
    const before = 'Glad to help. '
    const { safe, verdict } = follow([`${before}Take 400 mg of ibuprofen every six hours.`])
    expect(safe).toBe(before.length - 1)
    expect(verdict).toMatchObject({ action: 'block', rule: 'deny:medical' })
    expect(verdict.spans[0].start).toBe(safe)
    expect(verdict.reason).toContain('ibuprofen')
  })

  it('retains at most 600 characters of an endless sentence', () => {
    const check = guard.streamOutput!(STREAM, everything)
    const { safeOffset } = check.push('word '.repeat(500)) as any
    expect(safeOffset).toBeGreaterThan(2500 - 601)
  })

  it('blocks denied categories only', () => {
    const rules = { scopes: [], deny: ['math'], bannedPatterns: [] }
    const context = { ...everything, rules } as unknown as GuardContext
    const item: TextItem = {
      id: 'a',
      side: 'output',
      channel: 'content',
      current: true,
      text: 'Run pip install requests.',
    }
    expect(guard.checkOutput!(item, context)).toEqual({ action: 'pass' })
    expect(guard.checkOutput!(item, everything)).toMatchObject({ rule: 'deny:code' })
  })

  it('ignores refusals of the model and cited pages', () => {
    const text = 'Run pip install requests.'
    for (const channel of ['refusal', 'annotation'] as const) {
      const check = guard.streamOutput!({ ...STREAM, channel }, everything)
      expect(check.push(text)).toEqual({ safeOffset: text.length })
      expect(check.push(text)).toEqual({ safeOffset: 2 * text.length })
      expect(check.end()).toEqual({ safeOffset: 2 * text.length })
      const item: TextItem = { id: 'a', side: 'output', channel, current: true, text }
      expect(guard.checkOutput!(item, everything)).toMatchObject({ action: 'abstain' })
    }
  })

  it('does not depend on how letters are written', () => {
    for (const text of [
      'WRITE A PYTHON SCRIPT',
      'ｗｒｉｔｅ　ａ　ｐｙｔｈｏｎ　ｓｃｒｉｐｔ',
      'wri\u200bte a py\u00adthon script',
    ]) {
      expect(verdictOf(guard, { text, side: 'input' })).toMatchObject({ rule: 'deny:code' })
    }
    for (const text of ['Écris une fonction', 'E\u0301cris une fonction', 'ECRIS UNE FONCTION']) {
      expect(verdictOf(guard, { text, side: 'input' })).toMatchObject({ rule: 'deny:code' })
    }
  })

  it('takes a few words without a full stop as a request, as searches are written', () => {
    const words = 'eviction notice and tenancy agreement'
    expect(verdictOf(guard, { text: words, side: 'input' })).toMatchObject({ rule: 'deny:legal' })
    for (const text of [`${words}.`, `${words}\n`, `${words} ${'and so on '.repeat(10)}`]) {
      expect(verdictOf(guard, { text, side: 'input' })).toEqual({ action: 'pass' })
    }
    expect(verdictOf(guard, { text: words, side: 'output' })).toEqual({ action: 'pass' })
  })

  it('scores the parts of a turn together, and earlier turns separately', () => {
    const item = (text: string, current: boolean, role: TextItem['role'] = 'user'): TextItem => ({
      id: text,
      side: 'input',
      channel: 'content',
      role,
      current,
      text,
    })
    const ask = (...items: TextItem[]) =>
      (guard.checkInput!(items, everything) as any[]).map(({ action }) => action)
    expect(ask(item('My knee hurts.', true), item('My stomach and my chest too.', true))).toContain(
      'block',
    )
    expect(ask(item('Write a Python script.', false), item('Thanks!', true))).toEqual([
      'block',
      'pass',
    ])
    expect(ask(item('def a(): pass', false, 'assistant'))).toEqual(['abstain'])
    expect(ask({ ...item('Write a Python script.', true), channel: 'tool_schema' })).toEqual([
      'abstain',
    ])
  })

  it('splits sentences by their text alone', () => {
    const sentences = new Sentences()
    const found = ['One. Two costs 3', '.5! 完了。了\nlast'].flatMap((piece) =>
      sentences.push(piece),
    )
    expect([...found, sentences.end()].map((one) => one!.text)).toEqual([
      'One.',
      ' Two costs 3.5!',
      ' 完了。',
      '了\n',
      'last',
    ])
  })
})

describe('a lexicon', () => {
  it('has parts of compounds, which match at the end of a word and not at its beginning', () => {
    const index = new CueIndex()
    index.add(parseLexicon('de', '[script]\nLatin\n[legal loose]\n*vertrag*, *klage'))
    const found = (text: string) => {
      const units = new Uint16Array(text.length * 4)
      const words: string[] = []
      index.find(units, foldInto(text, units), (cue, at) => {
        words.push(`${index.cues[cue]!.id.split('.').at(-1)} ${at}`)
      })
      return words
    }
    expect(found('Mietvertrags und Räumungsklage')).toEqual(['*vertrag* 4', '*klage 25'])
    expect(found('Vertrag, Klage, Vertragsstrafe, Anklagen, Mietvertragsrecht')).toEqual([])
  })

  it('is a list of words for each section', () => {
    const text =
      '# Words.\n\n[script]\nLatin\n[asks]\ncan you\n[code topics]\npython*, sql,\n  query plan\n[operators]\ntimes'
    const { script, cues, operators } = parseLexicon('en', text)
    expect(cues.map(({ text: word, cue }) => [word, cue.id, cue.role])).toEqual([
      ['can you', 'en.asks.can you', 'leads'],
      ['python*', 'en.code.topics.python*', 'topics'],
      ['sql', 'en.code.topics.sql', 'topics'],
      ['query plan', 'en.code.topics.query plan', 'topics'],
    ])
    expect(script).toBe('Latin')
    expect(operators).toEqual(['times'])
  })

  it.each([
    ['[cooking topics]\nsalt', 'en.txt, line 1: there is no section [cooking topics]'],
    ['[code words]\nsql', 'en.txt, line 1: there is no section [code words]'],
    ['\nsql', 'en.txt, line 2: an entry before the first section'],
    ['[asks]\na\n[asks]', 'en.txt, line 3: there is a section [asks] already'],
    ['[script]\nRunes', 'en.txt, line 2: there is no script Runes; such as Latin'],
    ['[asks]\ncan you', 'en.txt: the section [script] is missing'],
  ])('says where it is wrong: %j', (text, message) => {
    expect(() => parseLexicon('en', text)).toThrow(message)
  })

  it('there is one for each of fourteen languages and one for names, and no entry twice in a section', () => {
    const lexicons = [...readLexicons()]
    expect(lexicons.map(({ language }) => language)).toEqual([...LANGUAGES, 'names'].sort())
    for (const { cues } of lexicons) {
      const ids = cues.map(({ cue }) => cue.id)
      expect(ids.filter((id, i) => ids.indexOf(id) !== i)).toEqual([])
    }
  })

  it.each([...readLexicons()].map((lexicon) => [lexicon.language, lexicon] as const))(
    'has no single word as proof, and no ideogram that many words contain: %s',
    (language, { cues, script }) => {
      const words = new Intl.Segmenter(language === 'names' ? 'en' : language, {
        granularity: 'word',
      })
      const isIdeographic = script === 'Han' || script === 'Kana'
      // What a text is about is a topic. Proof is a request together with its object, which takes two words.
      const single = cues.filter(({ text, cue: { role } }) => {
        const count = isIdeographic
          ? [...words.segment(text)].filter(({ isWordLike }) => isWordLike).length
          : text.trim().split(/\s+/).length
        return role === 'strong' && count < 2
      })
      expect(single.map(({ cue }) => cue.id)).toEqual([])
      // These match within words, and weigh little there: pronouns and particles, and loose words.
      const rare: readonly string[] = ['address', 'loose']
      const short = cues.filter(
        ({ text, cue: { role } }) =>
          isIdeographic && [...text].length < 2 && !rare.includes(role) && !/^\w/.test(text),
      )
      expect(short.map(({ cue }) => cue.id)).toEqual([])
    },
  )
})

describe('where a cue counts', () => {
  const ruleOf = (text: string, side: TextItem['side'] = 'input') => {
    const verdict = verdictOf(guard, { text, side })
    return verdict.action === 'block' ? verdict.rule : undefined
  }

  it('is not the name in an address', () => {
    const text = (name: string) => `Can you write to ${name}@example.com?`
    for (const name of ['landlord', 'lawsuit', 'python', 'mortgage']) {
      expect(verdictOf(guard, { side: 'input', text: text(name) }).action).toBe('pass')
    }
  })

  it('is in its language only', () => {
    // "wart" is a verruca in English, "主人" a master in Chinese, and Java an island.
    expect(ruleOf('Ile jest wart stary rower, proszę?')).toBeUndefined()
    expect(ruleOf('弁護士を主人公にしたドラマは何時からですか？')).toBeUndefined()
    expect(ruleOf('What language do they speak in Java?')).toBeUndefined()
    expect(ruleOf('How do I get rid of a wart?')).toBe('deny:medical')
    // Names are those of every language.
    expect(ruleOf('Do czego służy kubectl?')).toBe('deny:code')
    expect(ruleOf('kubectl が動かないのはなぜですか？')).toBe('deny:code')
  })

  it('is the language of the text, when a Japanese sentence has no kana of its own', () => {
    const heading = '角色扮演。'
    expect(ruleOf(`请和我一起角色扮演${heading}`)).toBe('deny:roleplay')
    const text = `新しい展覧会のお知らせ。\n${heading}`
    expect(follow([text])).toEqual({ safe: text.length, verdict: undefined })
    expect(follow([...text])).toEqual(follow([text]))
  })

  it('is a word of Arabic, with what is joined to it, and not a part of another word', () => {
    expect(ruleOf('ما جرعة الدواء لطفلي؟')).toBe('deny:medical')
    expect(ruleOf('هل للدواء وللصداع علاقة بنومي؟')).toBe('deny:medical')
    // "الم" is a pain, and begins the words for theatre and museum.
    expect(ruleOf('متى يفتح المسرح، وكيف اصل الى المتحف؟')).toBeUndefined()
  })

  it('is a sentence that asks or tells a person something, but not one of a textbook', () => {
    const textbook = 'Ibuprofen reduces fever and relieves headaches, toothache and back pain.'
    expect(ruleOf(textbook, 'output')).toBeUndefined()
    expect(ruleOf('Does ibuprofen help with a fever?')).toBe('deny:medical')
    expect(ruleOf('For your headache you should take ibuprofen.', 'output')).toBe('deny:medical')
  })

  it('is the sentence before a question, too', () => {
    expect(ruleOf('Mein Vermieter behält die Kaution.')).toBeUndefined()
    expect(ruleOf('Mein Vermieter behält die Kaution. Muss ich das hinnehmen?')).toBe('deny:legal')
  })

  it('allows any ending where a star stands, also within an entry', () => {
    expect(ruleOf('Напиши регулярное выражение')).toBe('deny:code')
    expect(ruleOf('Проверь мои регулярные выражения')).toBe('deny:code')
  })
})

describe('the guard in a gateway', () => {
  it('blocks requests and answers, streamed and whole', async () => {
    await using g = await guarded([{ use: 'categories' }])
    const policy = { deny: ['code' as const] }
    const messages = [{ role: 'user', content: 'Write a Python script that sorts a list.' }]
    expect((await g.ask(policy, { messages })).json.guard).toMatchObject({
      outcome: 'blocked',
      side: 'input',
      rules: ['deny:code'],
    })
    expect(g.vendor.requests).toHaveLength(0)
    const answer = 'Of course. Here it is:\n```python\nprint(1)\n```\n'
    g.vendor.answer(streamOf(...answer.match(/.{1,5}/gs)!.map((content) => ({ content }))))
    const streamed = readStream(await g.ask(policy, { stream: true }))
    expect(streamed).toMatchObject({
      finish: 'content_filter',
      guard: { side: 'output', rules: ['deny:code'] },
    })
    expect(streamed.content).toMatch(/^Of course\. Here it is:\n\n\n/)
    expect(streamed.content).not.toContain('```')
    g.vendor.answer(wholeOf({ content: answer }))
    expect((await g.ask(policy)).json.choices[0].message.content).not.toContain('print')
    g.vendor.answer(wholeOf({ content: 'The weather is fine.' }))
    expect((await g.ask(policy)).json.guard).toMatchObject({ outcome: 'passed', rules: [] })
  })

  it('only logs what it would have blocked, in mode hint', async () => {
    await using g = await guarded([
      { use: 'categories', options: { mode: 'hint' }, applies: 'always' },
    ])
    g.vendor.answer(wholeOf({ content: 'Fine.' }))
    const messages = [{ role: 'user', content: 'Write a Python script for secretword.' }]
    expect((await g.ask(undefined, { messages })).json.choices[0].message.content).toBe('Fine.')
    const log = g.t.logged.join('\n')
    expect(log).toMatch(/: input looks like code \(\d\.\d\d\)/)
    expect(log).not.toContain('secretword')
    // In this mode the guard enforces no rule, so it does not satisfy a policy that denies a category.
    expect((await g.ask({ deny: ['code'] })).json.guard).toMatchObject({ outcome: 'error' })
  })

  it('names the invalid option', async () => {
    const { issues } = await categories.options['~standard'].validate({ threshold: 2 })
    expect(issues).toHaveLength(1)
    await expect(guarded([{ use: 'categories', options: { mode: 'loud' } }])).rejects.toThrow(
      'mode',
    )
  })
})

/** Texts of every language, some with two scripts in a row. */
function some(): string[] {
  const texts = readSet('open').filter((_, i) => i % 9 === 0)
  return [
    ...texts.map(({ text }) => text),
    '新着情報です。\n角色扮演',
    '请帮我。 *窓を開ける* さあ',
  ]
}

import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { commentsOf } from './_comments.ts'
import { brokenLink, filesBelow, root } from './_markdown.ts'

const FOLDERS = ['src', 'providers', 'plugins', 'config', 'test']

const comments = FOLDERS.flatMap((folder) =>
  filesBelow(folder, (name) => name.endsWith('.ts')).flatMap((path) =>
    commentsOf(readFileSync(join(root, path), 'utf8')).map((comment) => ({ path, ...comment })),
  ),
)

/** Documents and codes that are no files of the repository. */
const CITATIONS = [
  /\b(wire|state|guard|performance) (contract|design)\b/i,
  /\b(contract|design),? (section )?[A-Z]?\d/i,
  /\([^()]*\b[DSH]\d{1,2}\b[^()]*\)/,
  /^(Decision )?[DSH]\d{1,2}\b/,
  /\bsection \d+(\.\d+)? of\b(?! RFC)/i,
]

/** What makes a sentence of words that begin with a preposition. */
const CLAUSE =
  /[,;]|\b(?:is|are|was|were|has|have|had|may|must|can|would|will|comes?|stays?|takes?|gives?|goes|follows?|pass|passes|counts?|costs?|wins?|ends?|sees?|finds?|changes?|use|uses|holds?|means?|stands?|answers?|refuses?|keeps?|begins?|reads?|asks?)\b/

/** Words of a sentence that is looked at for a verb, wherever it stands. */
const SHORT = 7

const anyOf = (words: string) => `(?:${words.replaceAll(' ', '|')})`
const PREPOSITIONS = anyOf(
  'about above across after against along among around as at because before behind below beneath beside between beyond by despite during except for from in inside instead into like of on onto only.of outside over per same since so such.as than through throughout till to toward towards under until unto upon via with within without',
)
const STATES = anyOf(
  'absent undefined null empty true called set sent made stored written held aborted counted used created',
)
const LINKS = anyOf(
  'a an as at because by every for from if in inside no of on once only to until when where while with without',
)
const PREPOSITION = new RegExp(`^(?:\\*\\s*)?${PREPOSITIONS}\\s`, 'i')
/** The beginning of what a tag says, which is a noun phrase or a sentence too; `as` may refer to another declaration. */
const TAGGED = new RegExp(
  `@(?:param [\\w.]+|returns|throws) (?!as \\{@link)${PREPOSITIONS}\\s`,
  'i',
)
/** The beginning of a doc comment that is neither a sentence nor a noun phrase. */
const FRAGMENT = new RegExp(`^\\*\\s*(?:${PREPOSITIONS}|${STATES} ${LINKS})\\s`, 'i')

/** The first part of a comment, and the short sentences below it, which may lack a verb. */
const partsOf = (text: string) => {
  const sentences = text.split(/(?<=[.!?])\s+/).slice(1)
  return [
    text.split(/[.:](?:\s|$)/)[0]!,
    ...sentences.filter((one) => one.split(' ').length <= SHORT),
  ]
}

const PATH = /(?<![\w/.:-])((?:\.{0,2}\/)?[\w.-]+(?:\/[\w.-]+)*\.md(?:#[\w-]+)?)/g

describe('comments', () => {
  it('are found', () => {
    expect(comments.length).toBeGreaterThan(1000)
    const source = "const url = 'https://host' // why\n/** One.\n * Two. */\nconst a = `// no`\n"
    expect(commentsOf(source)).toEqual([
      { line: 1, text: 'why' },
      { line: 2, text: '* One. Two.' },
    ])
  })

  it.each(FOLDERS)('cite no document that is not here: %s', (folder) => {
    const found = comments
      .filter(({ path }) => path.startsWith(`${folder}/`))
      .filter(({ text }) => CITATIONS.some((citation) => citation.test(text.replace(/^\*\s*/, ''))))
      .map(({ path, line, text }) => `${path}:${line}: ${text}`)
    expect(found).toEqual([])
  })

  it('name files of the repository, and headings that there are', () => {
    const broken = comments.flatMap(({ path, line, text }) =>
      [...text.matchAll(PATH)].flatMap(([, target]) => {
        const bases = [path, 'README.md', 'src/README.md']
        const found = bases.map((base) => brokenLink(base, target!))
        return found.includes(undefined) ? [] : [`${path}:${line}: ${target}: ${found[1]}`]
      }),
    )
    expect(broken).toEqual([])
  })

  it.each(FOLDERS)('are plain: no persons without a role: %s', (folder) => {
    const found = comments
      .filter(({ path }) => path.startsWith(`${folder}/`))
      .filter(({ text }) => /\b(whoever|somebody|nobody|the house)\b/i.test(text))
      .map(({ path, line, text }) => `${dirname(path)}: ${path}:${line}: ${text}`)
    expect(found).toEqual([])
  })

  it.each(FOLDERS)('are sentences or noun phrases: %s', (folder) => {
    const found = comments
      .filter(({ path }) => path.startsWith(`${folder}/`))
      .filter(({ text }) => partsOf(text).some((one) => PREPOSITION.test(one) && !CLAUSE.test(one)))
      .map(({ path, line, text }) => `${path}:${line}: ${text}`)
    expect(found).toEqual([])
  })

  it.each(FOLDERS)('for readers of a declaration begin with no fragment: %s', (folder) => {
    const found = comments
      .filter(({ path }) => path.startsWith(`${folder}/`))
      .filter(({ text }) => FRAGMENT.test(text) || (text.startsWith('*') && TAGGED.test(text)))
      .map(({ path, line, text }) => `${path}:${line}: ${text}`)
    expect(found).toEqual([])
  })
})

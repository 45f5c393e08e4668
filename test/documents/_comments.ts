/** Comments of TypeScript sources, by line. */

export interface Comment {
  readonly text: string
  /** The number of the line, counted from 1. */
  readonly line: number
}

/** Each block comment as one, its lines joined; each line comment as one. Texts and templates are passed over. */
export function commentsOf(source: string): Comment[] {
  const comments: Comment[] = []
  const token =
    /\/\*([^]*?)\*\/|(?<=^|[\s;{}(),])\/\/(.*)|'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)*`/gm
  let line = 1
  let at = 0
  for (const match of source.matchAll(token)) {
    line += linesIn(source.slice(at, match.index))
    at = match.index
    const text = match[1] ?? match[2]
    if (text !== undefined)
      comments.push({ line, text: text.replace(/\s*\n\s*\*?\s*/g, ' ').trim() })
  }
  return comments
}

function linesIn(text: string): number {
  return text.split('\n').length - 1
}

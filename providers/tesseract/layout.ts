/** From Tesseract's table of blocks, paragraphs, lines and words (its TSV output) to a page as `/v1/ocr` shows it. */
import type { OcrPage } from '../../src/plugin.ts'

/** Parts of a page that only some clients want. */
export interface Wishes {
  /** Paragraphs with their places. */
  readonly blocks: boolean
  /** How sure the engine is: of the page, or of every word too. */
  readonly scores: 'page' | 'word' | undefined
}

interface Box {
  readonly left: number
  readonly top: number
  readonly width: number
  readonly height: number
}

interface Word {
  readonly text: string
  /** 0 to 1 */
  readonly confidence: number
}

interface Line {
  readonly box: Box
  readonly words: Word[]
}

type Paragraph = Line[]

/** What the first column says a row is. */
const PAGE = '1'
const PARAGRAPH = '3'
const LINE = '4'
const WORD = '5'

/** Lines that are further apart than this many times their height belong to different paragraphs. */
const GAP = 2

/**
 * The page that a table describes: words and line breaks as they stand on it, a blank line between paragraphs.
 * @param dpi of the picture
 */
export function pageOf(tsv: string, index: number, dpi: number, wishes: Wishes): OcrPage {
  const { size, paragraphs } = read(tsv)
  return {
    index,
    markdown: paragraphs.map(textOf).join('\n\n'),
    images: [],
    dimensions: { dpi, height: size.height, width: size.width },
    ...(wishes.blocks && { blocks: paragraphs.map(blockOf) }),
    ...(wishes.scores && { confidence_scores: scoresOf(paragraphs, wishes.scores === 'word') }),
  }
}

function read(tsv: string): { size: Box; paragraphs: readonly Paragraph[] } {
  let size: Box = { left: 0, top: 0, width: 0, height: 0 }
  const paragraphs: Paragraph[] = []
  let line: Line | undefined
  for (const row of tsv.split('\n')) {
    // Numbers of page, block, paragraph, line and word are in between.
    const [level, , , , , , left, top, width, height, percent, text = ''] = row.split('\t')
    const box = {
      left: Number(left),
      top: Number(top),
      width: Number(width),
      height: Number(height),
    }
    if (level === PAGE) size = box
    else if (level === PARAGRAPH) paragraphs.push([])
    else if (level === LINE) line = { box, words: [] }
    // Pictures and rules are lines without words.
    else if (level === WORD && line && text.trim() !== '') {
      const confidence = Math.min(1, Math.max(0, Number(percent) / 100))
      if (line.words.push({ text: text.trim(), confidence }) === 1) place(line, paragraphs)
    }
  }
  return { size, paragraphs: paragraphs.filter((lines) => lines.length > 0) }
}

function place(line: Line, paragraphs: Paragraph[]): void {
  const above = paragraphs.at(-1)?.at(-1)?.box
  const gap = above ? line.box.top - (above.top + above.height) : 0
  if (above && gap > GAP * Math.max(above.height, line.box.height)) paragraphs.push([])
  paragraphs.at(-1)?.push(line)
}

function textOf(lines: Paragraph): string {
  return lines.map(({ words }) => words.map(({ text }) => text).join(' ')).join('\n')
}

function blockOf(lines: Paragraph): object {
  const boxes = lines.map(({ box }) => box)
  return {
    type: 'text',
    top_left_x: Math.min(...boxes.map(({ left }) => left)),
    top_left_y: Math.min(...boxes.map(({ top }) => top)),
    bottom_right_x: Math.max(...boxes.map(({ left, width }) => left + width)),
    bottom_right_y: Math.max(...boxes.map(({ top, height }) => top + height)),
    content: textOf(lines),
  }
}

function scoresOf(paragraphs: readonly Paragraph[], eachWord: boolean): object {
  const scores: { text: string; confidence: number; start_index: number }[] = []
  let start = 0
  for (const lines of paragraphs) {
    for (const { words } of lines) {
      for (const { text, confidence } of words) {
        scores.push({ text, confidence, start_index: start })
        // In characters as a reader counts them, with the blank or line break that follows.
        start += [...text].length + 1
      }
    }
    start++
  }
  let sum = 0
  let least = 1
  for (const { confidence } of scores) {
    sum += confidence
    least = Math.min(least, confidence)
  }
  return {
    // Of nothing one can be sure.
    average_page_confidence_score: scores.length > 0 ? sum / scores.length : 1,
    minimum_page_confidence_score: least,
    ...(eachWord && { word_confidence_scores: scores }),
  }
}

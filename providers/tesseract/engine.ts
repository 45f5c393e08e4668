/** Tesseract as WebAssembly. Runs in a worker thread because reading keeps a processor busy for seconds. */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { gunzipSync } from 'node:zlib'
import type { OcrPage } from '../../src/plugin.ts'

/** A language and its trained data, plain or gzipped. */
export interface Language {
  readonly name: string
  readonly path: string
}

/** The part of Tesseract's C++ interface (`baseapi.h`) that is used here. */
interface Api {
  /** @returns 0 on success */
  Init(dataPath: null, languages: string, mode: number): number
  SetVariable(name: string, value: string): boolean
  /** Reads the file `/input`. @returns 0 on success */
  SetImageFile(orientation: number, radians: number): number
  /** @returns 0 on success, even without text */
  Recognize(monitor: null): number
  GetTSVText(page: number): string
  GetSourceYResolution(): number
  Clear(): void
}
interface Module {
  readonly FS: { writeFile(path: string, bytes: Uint8Array): void }
  readonly TessBaseAPI: new () => Api
}
type Core = (options: { print(): void; printErr(): void }) => Promise<Module>

/** Neural networks only; the data files have no data for the older engine. */
const LSTM_ONLY = 1
const INPUT = '/input'
/** It is reported for images without a resolution. */
const SCREEN_DPI = 72

const CORE_MODULE = 'tesseract.js-core/tesseract-core-simd-lstm'

/** A loaded Tesseract engine. Reads one image at a time. */
export class Engine {
  readonly #module: Module
  readonly #api: Api

  /** Loads the engine with these languages. @throws Error when it cannot use the data */
  static async open(languages: readonly Language[]): Promise<Engine> {
    const core: Core = createRequire(import.meta.url)(CORE_MODULE)
    const module = await core({ print() {}, printErr() {} })
    for (const { name, path } of languages) {
      const bytes = readFileSync(path)
      const packed = bytes[0] === 0x1f && bytes[1] === 0x8b
      module.FS.writeFile(`./${name}.traineddata`, packed ? gunzipSync(bytes) : bytes)
    }
    const api = new module.TessBaseAPI()
    const names = languages.map(({ name }) => name).join('+')
    if (api.Init(null, names, LSTM_ONLY) !== 0) {
      throw new Error(`Tesseract cannot use its data for ${names}`)
    }
    return new Engine(module, api)
  }

  private constructor(module: Module, api: Api) {
    this.#module = module
    this.#api = api
  }

  /**
   * Reads one image.
   * @param dpi the resolution, where it is known
   * @returns undefined when the image cannot be read
   */
  read(
    picture: { readonly bytes: Uint8Array; readonly dpi?: number; readonly orientation?: number },
    index: number,
    options: PageOptions,
  ): OcrPage | undefined {
    const api = this.#api
    this.#module.FS.writeFile(INPUT, picture.bytes)
    api.SetVariable('user_defined_dpi', String(picture.dpi ?? 0))
    try {
      if (api.SetImageFile(picture.orientation ?? 1, 0) !== 0) return undefined
      const dpi = picture.dpi ?? (api.GetSourceYResolution() || SCREEN_DPI)
      if (api.Recognize(null) !== 0) return undefined
      return toPage(api.GetTSVText(0), index, dpi, options)
    } finally {
      api.Clear()
    }
  }
}

// Turns Tesseract's table of blocks, paragraphs, lines and words (TSV output) into a page of the OCR result.

/** Optional parts of a page. */
export interface PageOptions {
  /** Paragraphs with their positions. */
  readonly blocks: boolean
  /** Confidence scores: of the page, or also of every word. */
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
  /** The confidence, 0 to 1. */
  readonly confidence: number
}

interface Line {
  readonly box: Box
  readonly words: Word[]
}

type Paragraph = Line[]

/** Kinds of rows: the value of the first column. */
const PAGE = '1'
const PARAGRAPH = '3'
const LINE = '4'
const WORD = '5'

/** A gap above this many line heights separates paragraphs. */
const GAP = 2

/**
 * The page that a table describes, with the words and line breaks of the original and a blank line between paragraphs.
 * @param dpi resolution of the image
 */
function toPage(tsv: string, index: number, dpi: number, options: PageOptions): OcrPage {
  const { size, paragraphs } = read(tsv)
  return {
    index,
    markdown: paragraphs.map(textOf).join('\n\n'),
    images: [],
    dimensions: { dpi, height: size.height, width: size.width },
    ...(options.blocks && { blocks: paragraphs.map(toBlock) }),
    ...(options.scores && { confidence_scores: toScores(paragraphs, options.scores === 'word') }),
  }
}

function read(tsv: string): { size: Box; paragraphs: readonly Paragraph[] } {
  let size: Box = { left: 0, top: 0, width: 0, height: 0 }
  const paragraphs: Paragraph[] = []
  let line: Line | undefined
  for (const row of tsv.split('\n')) {
    // The columns between hold the numbers of page, block, paragraph, line and word.
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
    // Pictures and rules appear as lines without words.
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

function toBlock(lines: Paragraph): object {
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

function toScores(paragraphs: readonly Paragraph[], eachWord: boolean): object {
  const scores: { text: string; confidence: number; start_index: number }[] = []
  let start = 0
  for (const lines of paragraphs) {
    for (const { words } of lines) {
      for (const { text, confidence } of words) {
        scores.push({ text, confidence, start_index: start })
        // Counts code points, and the space or line break after the word.
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
    // An empty page is certain.
    average_page_confidence_score: scores.length > 0 ? sum / scores.length : 1,
    minimum_page_confidence_score: least,
    ...(eachWord && { word_confidence_scores: scores }),
  }
}

/**
 * Reads documents on this machine: Tesseract recognises text, PDFium draws the pages of PDFs. Both run as WebAssembly.
 * The plugin makes no requests to other services and loads the engines with the first document.
 */
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { availableParallelism } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import * as v from 'valibot'
import { defineProvider, type Host, type OcrInput } from '../src/plugin.ts'
import type { Language } from './tesseract/engine.ts'
import { Threads } from './tesseract/threads.ts'

// The optional packages that text recognition needs. They take 69 MB, so that the gateway comes without them.

/** What has to be importable, by package with the version that is installed. */
const NEEDED: Readonly<Record<string, string>> = {
  'tesseract.js-core@7': 'tesseract.js-core/tesseract-core-simd-lstm',
  '@tesseract.js-data/eng@1': '@tesseract.js-data/eng/package.json',
  '@hyzyla/pdfium@2': '@hyzyla/pdfium',
}

/** Installs text recognition beside the gateway. */
export const INSTALL_OCR = `npm install ${Object.keys(NEEDED).join(' ')}`

/** Whether all packages are there. @param language whether English is needed, too */
export function hasOcr({ language = true } = {}): boolean {
  const { resolve } = createRequire(import.meta.url)
  const needed = Object.values(NEEDED).filter((name) => language || !name.includes('-data'))
  return needed.every((name) => {
    try {
      return resolve(name) !== ''
    } catch {
      return false
    }
  })
}

const LANGUAGE = 'names of languages as Tesseract has them, such as "eng" or "chi_sim"'
const COUNT = 'a whole number above 0'
const count = v.pipe(v.number(COUNT), v.integer(COUNT), v.minValue(1, COUNT))

const options = v.strictObject({
  /** Languages of the documents. Each one makes reading slower. */
  languages: v.optional(
    v.pipe(
      v.array(v.pipe(v.string(LANGUAGE), v.regex(/^[A-Za-z_]{3,20}$/, LANGUAGE)), LANGUAGE),
      v.minLength(1, LANGUAGE),
    ),
    ['eng'],
  ),
  /** Folder of `<language>.traineddata` files, plain or gzipped. It is searched before the installed packages. */
  folder: v.optional(v.string('a path')),
  /** How many documents are read at once. By default one processor stays free. */
  threads: v.optional(count),
  /** Most pages that are read of one document. */
  maxPages: v.optional(count, 100),
})

export default defineProvider({
  name: 'tesseract',
  options,
  setup({ languages, folder, threads = defaultThreads(), maxPages }, host) {
    if (!hasOcr({ language: false })) throw new Error(`needs optional packages: ${INSTALL_OCR}`)
    const languageFiles = languages.map((name) => findLanguage(name, folder))
    const readers = new Threads(threads, languageFiles, host.fail)
    return {
      address: null,
      async ocr({ input, signal }) {
        const { kind } = input.document
        const bytes = await bytesOf(input, host, signal)
        const { include_blocks, confidence_scores_granularity: scores } = input
        const pages = await readers.read(
          {
            kind,
            bytes,
            pages: input.pages,
            maxPages,
            blocks: include_blocks === true,
            scores: scores ? (scores === 'word' ? 'word' : 'page') : undefined,
          },
          signal,
        )
        return { pages, usage: { pages: pages.length } }
      },
      close: () => readers.close(),
    }
  },
})

/** The number of threads, at most four: more engines would take more memory than most machines have. */
function defaultThreads(): number {
  return Math.min(4, Math.max(1, availableParallelism() - 1))
}

/** The file of a language. @throws Error that says how to install the data, when there is none */
function findLanguage(name: string, folder: string | undefined): Language {
  const files = [`${name}.traineddata.gz`, `${name}.traineddata`]
  const folders = [...(folder === undefined ? [] : [resolve(folder)]), ...packageFolders(name)]
  const path = folders.flatMap((one) => files.map((file) => join(one, file))).find(existsSync)
  if (path !== undefined) return { name, path }
  const where = folder === undefined ? 'name a "folder" that has' : `put into ${folder}`
  throw new Error(
    `there is no data for the language "${name}": install @tesseract.js-data/${name}, ` +
      `or ${where} ${name}.traineddata`,
  )
}

/** Folders of the npm package of a language. The integer model is faster and nearly as accurate, so it comes first. */
function packageFolders(name: string): readonly string[] {
  try {
    const require = createRequire(import.meta.url)
    const root = dirname(require.resolve(`@tesseract.js-data/${name}/package.json`))
    return [join(root, '4.0.0_best_int'), join(root, '4.0.0')]
  } catch {
    return []
  }
}

async function bytesOf(
  { document }: OcrInput,
  host: Host,
  signal: AbortSignal,
): Promise<Uint8Array> {
  if ('file' in document) return document.file.bytes
  const param = document.kind === 'image' ? 'document.image_url' : 'document.document_url'
  const { bytes } = await host.download(document.url, signal, { param })
  return bytes
}

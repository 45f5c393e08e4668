/** Tesseract as WebAssembly. Runs in a worker thread because reading keeps a processor busy for seconds. */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { gunzipSync } from 'node:zlib'
import type { OcrPage } from '../../src/plugin.ts'
import { toPage, type PageOptions } from './layout.ts'

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
/** Reported for images without a resolution. */
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

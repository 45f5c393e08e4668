/** Tesseract, compiled to WebAssembly. Runs in a reading thread: reading keeps a processor busy for seconds. */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { gunzipSync } from 'node:zlib'
import type { OcrPage } from '../../src/plugin.ts'
import { pageOf, type Wishes } from './layout.ts'

/** A language and the file that was trained for it, packed by gzip or not. */
export interface Language {
  readonly name: string
  readonly path: string
}

/** What is used of the module's C++ interface (Tesseract's `baseapi.h`). */
interface Api {
  /** @returns 0 when all went well */
  Init(dataPath: null, languages: string, mode: number): number
  SetVariable(name: string, value: string): boolean
  /** Takes the file `/input`. @returns 0 when all went well */
  SetImageFile(orientation: number, radians: number): number
  /** @returns 0 when all went well, be there words or not */
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

/** Neural networks; the data of the older engine is not in the files. */
const LSTM_ONLY = 1
const INPUT = '/input'
/** What is written for pictures that do not say how large they are. */
const SCREEN_DPI = 72

const INSTRUCTIONS = 'tesseract.js-core/tesseract-core-simd-lstm'

export class Engine {
  readonly #module: Module
  readonly #api: Api

  /** @throws Error for data that is none */
  static async open(languages: readonly Language[]): Promise<Engine> {
    const core: Core = createRequire(import.meta.url)(INSTRUCTIONS)
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
   * Reads one picture.
   * @param dpi where it is known
   * @returns undefined where it is no picture, or none that can be read
   */
  read(
    picture: { readonly bytes: Uint8Array; readonly dpi?: number; readonly orientation?: number },
    index: number,
    wishes: Wishes,
  ): OcrPage | undefined {
    const api = this.#api
    this.#module.FS.writeFile(INPUT, picture.bytes)
    api.SetVariable('user_defined_dpi', String(picture.dpi ?? 0))
    try {
      if (api.SetImageFile(picture.orientation ?? 1, 0) !== 0) return undefined
      const dpi = picture.dpi ?? (api.GetSourceYResolution() || SCREEN_DPI)
      if (api.Recognize(null) !== 0) return undefined
      return pageOf(api.GetTSVText(0), index, dpi, wishes)
    } finally {
      api.Clear()
    }
  }
}

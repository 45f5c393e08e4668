/** The optional packages that text recognition needs. They take 69 MB, so that the gateway comes without them. */
import { createRequire } from 'node:module'

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

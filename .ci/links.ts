/** What the package ships, and the links of its pages that lead to a file which it does not ship. */
import { existsSync, globSync, readFileSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'

const LINK = /\]\(([^)\s]+)\)|<img [^>]*src="([^"]+)"/g
const CODE = /^(```|~~~)[^]*?^\1|`[^`\n]*`/gm

/** The shipped files of a checkout, as `files` of its manifest says; the manifest is always one. */
export function shippedFiles(root: string): ReadonlySet<string> {
  const { files } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    files: string[]
  }
  const shipped = new Set(['package.json'])
  for (const pattern of files) {
    const plain = pattern.replace(/^!/, '')
    const isFolder = existsSync(join(root, plain)) && statSync(join(root, plain)).isDirectory()
    for (const file of globSync(isFolder ? `${plain}/**/*` : plain, { cwd: root })) {
      if (pattern.startsWith('!')) shipped.delete(file)
      else shipped.add(file)
    }
  }
  return shipped
}

/** The package has no sources and no tests, and only the pictures of its README: other pages may name them. */
const ELSEWHERE = /(?:^|\/)(?:src|test)\/|\.ts$|\.webp$|^[^.]*$/

/** Such as `README.md: docs/none.md`. */
export function deadLinks(root: string, shipped: ReadonlySet<string>): string[] {
  const folders = new Set([...shipped].map((file) => dirname(file)))
  const isShipped = (path: string) => shipped.has(path) || folders.has(path.replace(/\/$/, ''))
  return [...shipped]
    .filter((file) => file.endsWith('.md') && !file.startsWith('dist/'))
    .flatMap((file) => {
      const text = readFileSync(join(root, file), 'utf8').replaceAll(CODE, '')
      const links = [...text.matchAll(LINK)].map(([, link, image]) => link ?? image!)
      return links
        .filter((link) => !/^(?:https?:|mailto:|#)/.test(link))
        .filter((link) => !isShipped(join(dirname(file), link.split('#')[0]!)))
        .filter((link) => file === 'README.md' || !ELSEWHERE.test(link.split('#')[0]!))
        .map((link) => `${file}: ${link}`)
    })
}

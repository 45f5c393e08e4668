/** The site of the documentation. Its pages are written by `test/documents/site.ts`, which `npm run docs:site` runs before. */
import { readFileSync } from 'node:fs'
import { defineConfig } from 'vitepress'

const sidebar = JSON.parse(readFileSync(new URL('navigation.json', import.meta.url), 'utf8'))

export default defineConfig({
  title: 'Sluicegate',
  description: 'A self-hosted gateway between clients and model vendors.',
  base: process.env.DOCS_BASE ?? '/',
  srcDir: '.vitepress/pages',
  srcExclude: ['public/**'],
  outDir: '../site',
  // Braces in headings are parts of paths.
  markdown: { attrs: { disable: true } },
  // What is wide breaks or scrolls on a phone.
  head: [
    [
      'style',
      {},
      '.vp-doc :not(pre) > code, .vp-doc a { overflow-wrap: anywhere } .vp-doc pre { overflow-x: auto }',
    ],
  ],
  themeConfig: {
    sidebar,
    nav: [
      { text: 'Documentation', link: '/docs/' },
      { text: 'Changes', link: '/CHANGELOG' },
    ],
    outline: [2, 3],
    search: { provider: 'local' },
  },
})

import { expect, it } from 'vitest'
import { chartOf } from './chart.ts'
import { runOf } from './_measured.ts'

/** Widths of the bars, in their order. */
function bars(svg: string): number[] {
  const found = svg.matchAll(/<rect class="(?:pinned|shared)" x="106"[^>]* width="([\d.]+)"/g)
  return [...found].map(([, width]) => Number(width))
}

it('bars are as long as the figures, of every system and setting', () => {
  const svg = chartOf(runOf({ file: 2.6, memory: 1.5, redis: 3 }))
  const [proxy, proxyShared, file, fileShared, memory, , redis] = bars(svg)
  expect(fileShared! / proxyShared!).toBeCloseTo(2.6, 1)
  expect(file! / proxy!).toBeCloseTo(2.6, 1)
  expect(memory! / proxy!).toBeCloseTo(1.5, 1)
  expect(redis! / proxy!).toBeCloseTo(3, 1)
  expect(svg).toContain('proxy 50, proxy 50 on shared cores, file, default 130')
})

it('a run of one setting has its bars alone', () => {
  const run = runOf()
  const svg = chartOf({ ...run, settings: run.settings.slice(0, 1) })
  expect(svg).not.toContain('class="shared"')
  // The proxy and the default, in each of the two panels on the left.
  expect(bars(svg)).toHaveLength(4)
})

it('what was measured is told, and nothing of it is taken as markup', () => {
  const svg = chartOf(runOf())
  expect(svg).toContain('A Processor &lt;fast&gt; &amp; cool')
  expect(svg).toContain('2026-01-31')
  expect(svg.match(/<text/g)!.length).toBe(svg.match(/<\/text>/g)!.length)
})

it('it has colours for light and dark pages', () => {
  expect(chartOf(runOf())).toMatch(
    /\.paper \{ fill: #fff \}[^]*prefers-color-scheme: dark[^]*\.paper/,
  )
})

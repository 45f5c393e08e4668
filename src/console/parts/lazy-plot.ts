/** A plot that brings its library along when the first one is drawn. */
import { html } from '../html.ts'
import { lazy } from './lazy.ts'
import type { PlotProps } from './plot.ts'

/** Like `Plot`; its height is reserved before it is loaded. */
export const LazyPlot = lazy<PlotProps>(
  async () => (await import('./plot.ts')).Plot,
  () => html`<div class="plot-frame"><div class="plot"></div></div>`,
)

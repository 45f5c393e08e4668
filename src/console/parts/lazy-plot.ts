/** A plot that brings its library along when the first one is drawn. */
import { useEffect, useState } from 'preact/hooks'
import { toApiError, type ApiError } from '../api.ts'
import { html } from '../html.ts'
import type { Plot, PlotProps } from './plot.ts'
import { Failure } from './states.ts'

/** As `Plot`; its height is there before it is. */
export function LazyPlot(props: PlotProps) {
  const [loaded, setLoaded] = useState<{ readonly Plot: typeof Plot }>()
  const [error, setError] = useState<ApiError>()
  useEffect(() => {
    import('./plot.ts').then(setLoaded, (thrown: unknown) => setError(toApiError(thrown)))
  }, [])
  if (error) return html`<${Failure} error=${error} />`
  if (!loaded) return html`<div class="plot-frame"><div class="plot"></div></div>`
  return html`<${loaded.Plot} ...${props} />`
}

/** Components that bring their code along when they are first shown. */
import type { ComponentType } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { toApiError, type ApiError } from '../api.ts'
import { html, type Content } from '../html.ts'
import { Failure, Skeleton } from './states.ts'
import type { PlotProps } from './plot.ts'

/** A component that is loaded once. @param meanwhile the content until then */
export function lazy<Props extends object>(
  load: () => Promise<ComponentType<Props>>,
  meanwhile: () => Content = () => html`<${Skeleton} />`,
): ComponentType<Props> {
  let loading: Promise<ComponentType<Props>> | undefined
  return function Lazy(props: Props) {
    const [loaded, setLoaded] = useState<{ readonly component: ComponentType<Props> }>()
    const [error, setError] = useState<ApiError>()
    useEffect(() => {
      loading ??= load()
      loading.then(
        (component) => setLoaded({ component }),
        (thrown: unknown) => {
          loading = undefined
          setError(toApiError(thrown))
        },
      )
    }, [])
    if (error) return html`<${Failure} error=${error} />`
    if (!loaded) return html`<div>${meanwhile()}</div>`
    return html`<${loaded.component} ...${props} />`
  }
}

// A plot that brings its library along when the first one is drawn.

/** A `Plot` whose height is reserved before it is loaded. */
export const LazyPlot = lazy<PlotProps>(
  async () => (await import('./plot.ts')).Plot,
  () => html`<div class="plot-frame"><div class="plot"></div></div>`,
)

/** The page of the manual that is open. */
export const LazyHelp = lazy(
  async () => (await import('./help.ts')).Help,
  () => null,
)

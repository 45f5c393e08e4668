/** Settings: the configuration, changes by operators, alerts, and the state of the processes. */
import { html } from '../html.ts'
import { Tabs } from '../parts/tabs.ts'
import type { ScreenProps } from '../state.ts'
import { Alerts } from './settings-alerts.ts'
import { AuditLog } from './settings-audit.ts'
import { Configuration } from './settings-configuration.ts'
import { Gateways } from './settings-gateways.ts'

const TABS = {
  configuration: { label: 'Configuration', part: Configuration },
  audit: { label: 'Audit', part: AuditLog },
  alerts: { label: 'Alerts', part: Alerts },
  gateways: { label: 'Gateways', part: Gateways },
}

export function Settings({ params }: ScreenProps) {
  const current = Object.hasOwn(TABS, params.tab ?? '') ? params.tab! : 'configuration'
  const { part } = TABS[current as keyof typeof TABS]
  return html`<div class="screen">
    <header class="screen-head"><h1>Settings</h1></header>
    <${Tabs}
      label="Parts of the settings"
      tabs=${Object.entries(TABS).map(([key, { label }]) => ({
        key,
        label,
        href: `/console/settings/${key}`,
      }))}
      current=${current}
    />
    <${part} />
  </div>`
}

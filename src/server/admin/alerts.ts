/** Alerts in the admin API. */
import { note } from './audit.ts'
import { read } from './bodies.ts'
import { alertView, mute } from './resources/alert.ts'
import { bodyOf, missing, type Answer, type AdminRequest } from './route.ts'

export function listAlerts({ runtime: { alerts } }: AdminRequest): Answer {
  return { body: { data: [...alerts.active, ...alerts.ended].map(alertView) } }
}

/** Mutes an alert for a while. @throws NotFound for one that is not active */
export async function muteAlert(request: AdminRequest): Promise<Answer> {
  const { runtime, id } = request
  const { seconds } = read(mute, await bodyOf(request))
  const alert = runtime.alerts.mute(id, Date.now() + seconds * 1000) ?? missing('active alert', id)
  const after = { kind: alert.kind, object: alert.object, seconds }
  await note(request, { action: 'alert.mute', object: `alert:${id}`, after })
  return { body: { data: alertView(alert) } }
}

/** `GET /admin/alerts`, and `POST /admin/alerts/:id/mute`. */
import type { Alert } from '../../observe/alerts.ts'
import { note } from './audit.ts'
import { read } from './bodies.ts'
import { mute, type AlertAnswer } from './resources/alert.ts'
import { momentOrNull } from './resources/settings.ts'
import { bodyOf, missing, type Answer, type Asked } from './route.ts'

/** Active alerts, then the last ones that have ended. */
export function listAlerts({ runtime: { alerts } }: Asked): Answer {
  return { body: { data: [...alerts.active, ...alerts.ended].map(alertView) } }
}

/** Tells nothing of an alert for a while. @throws NotFound for one that is not active */
export async function muteAlert(asked: Asked): Promise<Answer> {
  const { runtime, id } = asked
  const { seconds } = read(mute, await bodyOf(asked))
  const alert = runtime.alerts.mute(id, Date.now() + seconds * 1000) ?? missing('active alert', id)
  const after = { kind: alert.kind, object: alert.object, seconds }
  await note(asked, { action: 'alert.mute', object: `alert:${id}`, after })
  return { body: { data: alertView(alert) } }
}

/** An alert as operators see it. */
export function alertView(alert: Alert): AlertAnswer {
  const { id, kind, object, message, raisedAt, endedAt, mutedUntil } = alert
  return {
    id,
    kind,
    object: object === '' ? null : object,
    message,
    since: momentOrNull(raisedAt),
    ended_at: momentOrNull(endedAt),
    muted_until: momentOrNull(mutedUntil),
  }
}

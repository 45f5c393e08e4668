import { toneOf } from '../_media.ts'
import { ask } from './_ask.ts'

const form = new FormData()
form.set('model', 'mock/ears')
form.set('stream', 'true')
form.set('file', new File([toneOf(2)], 'turn.wav'))
await ask('/v1/audio/transcriptions', form)

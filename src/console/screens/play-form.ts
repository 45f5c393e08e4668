/** The form of the Playground: its fields follow the modality of the model. */
import { html, type Content } from '../html.ts'
import { CheckField, SelectField, TextField } from '../parts/form.ts'
import type { Attachment, Draft, DraftError, PlayModel } from './play-request.ts'

interface FormProps {
  readonly model: PlayModel
  readonly draft: Draft
  readonly set: (change: Partial<Draft>) => void
  readonly wrong: DraftError | undefined
}

const TEXTS: Readonly<Record<string, string>> = {
  chat: 'Message',
  image: 'Prompt',
  speech: 'Text to be said',
  embedding: 'Text',
  rerank: 'Query',
  moderation: 'Text',
}
/** Files by modality; those of a chat model depend on its capabilities. */
const ACCEPTED: Readonly<Record<string, string>> = {
  chat: 'image/*,application/pdf,audio/*',
  image: 'image/png,image/jpeg,image/webp',
  ocr: 'application/pdf,image/*',
  transcription: 'audio/*,video/webm,video/mp4',
}
const EFFORTS = ['', 'none', 'minimal', 'low', 'medium', 'high']
const SOUNDS = ['mp3', 'opus', 'aac', 'flac', 'wav']

export function PlayFields(props: FormProps) {
  const { model, draft, set, wrong } = props
  const { modality } = model
  const text = TEXTS[modality]
  const error = (field: keyof Draft) => (wrong?.field === field ? wrong.message : undefined)
  const line = (field: TextName, label: string, more: object = {}) =>
    html`<${TextField}
      label=${label}
      value=${draft[field]}
      onInput=${(value: string) => set({ [field]: value })}
      error=${error(field)}
      ...${more}
    />`
  return html`<div class="form">
    ${text && line('text', text, { rows: modality === 'chat' ? 4 : 3 })}
    ${modality === 'rerank' && line('documents', 'Documents, one a line', { rows: 5 })}
    ${
      modality === 'image' &&
      html`<div class="row">${line('count', 'Number')} ${line('size', 'Size')}</div>`
    }
    ${
      modality === 'speech' &&
      html`<div class="row">
        ${line('voice', 'Voice')}
        <${SelectField}
          label="Format"
          value=${draft.sound}
          options=${SOUNDS.map((value) => ({ value, label: value }))}
          onChange=${(sound: string) => set({ sound })}
        />
      </div>`
    }
    ${modality === 'transcription' && line('language', 'Language, such as en; empty: any')}
    ${takesFiles(model) && html`<${Files} ...${props} error=${error('files')} />`}
    ${modality === 'chat' && html`<${ChatSettings} ...${props} line=${line} />`}
    ${
      modality !== 'chat' &&
      html`<details class="fold">
        <summary>Policy of this request</summary>
        ${line('policy', 'Policy, JSON', { rows: 3, mono: true, help: POLICY_HELP })}
      </details>`
    }
  </div>`
}

const POLICY_HELP = 'Tightens the policy of the key for this call; it can loosen nothing.'

function ChatSettings({
  draft,
  set,
  wrong,
  line,
}: FormProps & { readonly line: (field: TextName, label: string, more?: object) => Content }) {
  const isOpen = wrong !== undefined && wrong.field !== 'text'
  return html`<details class="fold" open=${isOpen || undefined}>
    <summary>Settings</summary>
    <div class="form">
      ${line('system', 'System', { rows: 2 })}
      <div class="row">
        ${line('temperature', 'Temperature')} ${line('topP', 'top_p')}
        ${line('maxTokens', 'Most tokens')}
        <${SelectField}
          label="Reasoning"
          value=${draft.effort}
          options=${EFFORTS.map((value) => ({ value, label: value || 'default' }))}
          onChange=${(effort: string) => set({ effort })}
        />
        <${SelectField}
          label="Answer as"
          value=${draft.format}
          options=${[
            { value: '', label: 'text' },
            { value: 'json_object', label: 'JSON' },
            { value: 'json_schema', label: 'JSON by a schema' },
          ]}
          onChange=${(format: string) => set({ format })}
        />
      </div>
      ${draft.format === 'json_schema' && line('schema', 'Schema, JSON', { rows: 4, mono: true })}
      ${line('tools', 'Tools, JSON', { rows: 3, mono: true })}
      ${line('policy', 'Policy of this request, JSON', { rows: 3, mono: true, help: POLICY_HELP })}
      <div class="choices">
        <${CheckField}
          label="Stream"
          checked=${draft.stream}
          onChange=${(stream: boolean) => set({ stream })}
        />
        <${CheckField}
          label="Search the web (:online)"
          checked=${draft.online}
          onChange=${(online: boolean) => set({ online })}
        />
      </div>
    </div>
  </details>`
}

function Files({ model, draft, set, error }: FormProps & { readonly error: string | undefined }) {
  const several = model.modality === 'chat' || model.modality === 'image'
  const choose = async (event: Event) => {
    const input = event.target as HTMLInputElement
    const chosen = await Promise.all([...(input.files ?? [])].map(attachmentOf))
    input.value = ''
    set({ files: several ? [...draft.files, ...chosen] : chosen })
  }
  return html`<div class=${error ? 'field wrong' : 'field'}>
    <label class="file">
      <span>${several ? 'Files' : 'File'}</span>
      <input
        type="file"
        accept=${ACCEPTED[model.modality]}
        multiple=${several}
        aria-invalid=${error ? 'true' : undefined}
        onChange=${choose}
      />
    </label>
    ${
      draft.files.length > 0 &&
      html`<ul class="filters">
        ${draft.files.map(
          (file, index) =>
            html`<li class="chip" key=${index}>
              <span>${file.name}</span>
              <button
                type="button"
                aria-label=${`Remove ${file.name}`}
                onClick=${() => set({ files: draft.files.filter((one) => one !== file) })}
              >
                ✕
              </button>
            </li>`,
        )}
      </ul>`
    }
    ${error && html`<p class="error">${error}</p>`}
  </div>`
}

type TextName = {
  readonly [Name in keyof Draft]: Draft[Name] extends string ? Name : never
}[keyof Draft]

/** Models without a list of capabilities are tried with everything. */
function takesFiles({ modality, capabilities }: PlayModel): boolean {
  if (!(modality in ACCEPTED)) return false
  if (modality === 'image') return capabilities?.includes('REFERENCES') ?? false
  if (modality !== 'chat' || capabilities === null) return true
  return ['VISION', 'FILE_INPUT', 'AUDIO_INPUT'].some((one) => capabilities.includes(one))
}

function attachmentOf(file: File): Promise<Attachment> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader()
    reader.addEventListener('load', () =>
      resolve({ name: file.name, type: file.type, url: String(reader.result), file }),
    )
    reader.addEventListener('error', () => reject(reader.error as Error))
    reader.readAsDataURL(file)
  })
}

/** The modality of a model here, by LiteLLM's `mode`. */
export const MODALITIES: Readonly<Record<string, string>> = {
  chat: 'chat',
  responses: 'chat',
  completion: 'chat',
  image_generation: 'image',
  image_edit: 'image',
  ocr: 'ocr',
  audio_speech: 'speech',
  audio_transcription: 'transcription',
  embedding: 'embedding',
  rerank: 'rerank',
  moderation: 'moderation',
}

{{- define "sluicegate.name" -}}
{{- printf "%s" (ternary .Release.Name (printf "%s-sluicegate" .Release.Name) (contains "sluicegate" .Release.Name)) | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "sluicegate.selector" -}}
app.kubernetes.io/name: sluicegate
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "sluicegate.labels" -}}
{{ include "sluicegate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "sluicegate.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- /* The number of gateways. */ -}}
{{- define "sluicegate.replicas" -}}
{{- if .Values.replicas }}{{ .Values.replicas }}{{ else }}{{ ternary 2 1 (eq .Values.state.driver "redis") }}{{ end -}}
{{- end -}}

{{- /* A file has one owner: two gateways would each have half of the money. */ -}}
{{- define "sluicegate.check" -}}
{{- if and (eq .Values.state.driver "file") (or (gt (int (include "sluicegate.replicas" .)) 1) .Values.autoscaling.enabled) -}}
{{- fail "state.driver file has one owner; use redis for several replicas" -}}
{{- end -}}
{{- end -}}

{{- /* The one port to the world: that of the proxy, where there is one. */ -}}
{{- define "sluicegate.outPort" -}}
{{- $proxy := .Values.egress.proxy -}}
{{- if contains "@" $proxy }}{{ fail "egress.proxy has user information: use HTTPS_PROXY from existingSecret" }}{{ end -}}
{{- if .Values.networkPolicy.proxyPort }}{{ .Values.networkPolicy.proxyPort }}
{{- else if and $proxy (ne $proxy "none") (ne $proxy "environment") -}}
{{- $url := urlParse $proxy -}}
{{- regexFind "[0-9]+$" (regexFind ":[0-9]+$" $url.host) | default (ternary "443" "80" (eq $url.scheme "https")) -}}
{{- else }}443{{ end -}}
{{- end -}}

{{- /* The configuration, with what the chart decides. */ -}}
{{- define "sluicegate.config" -}}
{{- $server := dict "host" "0.0.0.0" "port" 8787 "shutdownDelay" .Values.shutdownDelay "shutdownGrace" .Values.shutdownGrace -}}
{{- $state := dict "driver" .Values.state.driver -}}
{{- if eq .Values.state.driver "redis" -}}
{{- $_ := set $state "url" (.Values.state.url | default "${SLUICEGATE_REDIS_URL:-redis://redis:6379}") -}}
{{- if .Values.state.outboxEphemeral }}{{ $_ := set $state "outboxKept" false }}{{ end -}}
{{- end -}}
{{- if .Values.tls.secretName -}}
{{- $_ := set $server "tls" (dict "cert" "/tls/tls.crt" "key" "/tls/tls.key") -}}
{{- end -}}
{{- $own := dict "server" $server "state" $state "log" (dict "format" "json") "admin" (dict "metrics" "public") -}}
{{- $egress := dict -}}
{{- with .Values.egress.proxy }}{{ $_ := set $egress "proxy" . }}{{ end -}}
{{- if .Values.egress.caConfigMap }}{{ $_ := set $egress "tls" (dict "ca" "/egress/ca.crt") }}{{ end -}}
{{- if $egress }}{{ $_ := set $own "egress" $egress }}{{ end -}}
{{- toYaml (mergeOverwrite $own (deepCopy .Values.config)) -}}
{{- end -}}

{{- define "sluicegate.pod" -}}
{{- $scheme := ternary ", scheme: HTTPS" "" (ne .Values.tls.secretName "") -}}
metadata:
  labels:
    {{- include "sluicegate.labels" . | nindent 4 }}
    {{- with .Values.podLabels }}{{ toYaml . | nindent 4 }}{{ end }}
  annotations:
    # A changed configuration restarts the pods.
    checksum/config: {{ printf "%s%s" (include "sluicegate.config" .) (toYaml .Values.plugins) | sha256sum }}
    {{- if .Values.secretEnv }}
    checksum/secret: {{ toYaml .Values.secretEnv | sha256sum }}
    {{- end }}
    {{- with .Values.podAnnotations }}{{ toYaml . | nindent 4 }}{{ end }}
spec:
  serviceAccountName: {{ include "sluicegate.name" . }}
  automountServiceAccountToken: false
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets: {{ toYaml . | nindent 4 }}
  {{- end }}
  terminationGracePeriodSeconds: {{ add .Values.shutdownDelay .Values.shutdownGrace 15 }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    seccompProfile:
      type: RuntimeDefault
  containers:
    - name: gateway
      image: {{ include "sluicegate.image" . | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      {{- if or .Values.existingSecret .Values.secretEnv }}
      envFrom:
        {{- if .Values.existingSecret }}
        - secretRef:
            name: {{ .Values.existingSecret }}
        {{- end }}
        {{- if .Values.secretEnv }}
        - secretRef:
            name: {{ include "sluicegate.name" . }}
        {{- end }}
      {{- end }}
      ports:
        - name: http
          containerPort: 8787
      # A store that cannot be written yet makes a gateway not ready; starting it again would not help.
      startupProbe:
        httpGet: { path: /startupz, port: http{{ $scheme }} }
        periodSeconds: 1
        failureThreshold: 30
      livenessProbe:
        httpGet: { path: /livez, port: http{{ $scheme }} }
        periodSeconds: 10
        failureThreshold: 6
      readinessProbe:
        httpGet: { path: /readyz, port: http{{ $scheme }} }
        periodSeconds: 2
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities:
          drop: [ALL]
      resources: {{ toYaml .Values.resources | nindent 8 }}
      volumeMounts:
        - name: config
          mountPath: /config
          readOnly: true
        - name: data
          mountPath: /data
        - name: tmp
          mountPath: /tmp
        {{- if .Values.tls.secretName }}
        - name: tls
          mountPath: /tls
          readOnly: true
        {{- end }}
        {{- if .Values.egress.caConfigMap }}
        - name: egress
          mountPath: /egress
          readOnly: true
        {{- end }}
  volumes:
    - name: config
      configMap:
        name: {{ include "sluicegate.name" . }}
    - name: tmp
      emptyDir: {}
    {{- if .Values.tls.secretName }}
    - name: tls
      secret:
        secretName: {{ .Values.tls.secretName }}
    {{- end }}
    {{- if .Values.egress.caConfigMap }}
    - name: egress
      configMap:
        name: {{ .Values.egress.caConfigMap }}
    {{- end }}
    {{- if and (eq .Values.state.driver "redis") .Values.state.outboxEphemeral }}
    # The outbox: settlements that Redis has not taken yet. It goes with the pod.
    - name: data
      emptyDir: {}
    {{- end }}
  {{- if eq .Values.state.driver "redis" }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels: {{ include "sluicegate.selector" . | nindent 10 }}
  {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector: {{ toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations: {{ toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity: {{ toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{/* The name of everything: the release's, with the chart's in it. Names of services have 63 characters at most. */}}
{{- define "tidegate.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 53 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 53 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* What selects pods, and can never change. */}}
{{- define "tidegate.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "tidegate.labels" -}}
{{ include "tidegate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{/* The whole configuration: what the chart says, and what the values say. */}}
{{- define "tidegate.config" -}}
{{- if .Values.store.existingSecret }}
store:
  url_file: /run/secrets/tidegate/{{ .Values.store.key }}
{{- end }}
listen:
  http: 0.0.0.0:8080
  grpc: 0.0.0.0:8081
{{ toYaml .Values.config }}
{{- end -}}

{{/* How long a pod may take to stop, in seconds: `drain`, and 20 for requests in flight and leases. */}}
{{- define "tidegate.patience" -}}
{{- $minutes := regexFind "[0-9]+min" .Values.config.drain | trimSuffix "min" | int -}}
{{- $seconds := regexFind "[0-9]+s$" .Values.config.drain | trimSuffix "s" | int -}}
{{- add (mul 60 $minutes) $seconds 20 -}}
{{- end -}}

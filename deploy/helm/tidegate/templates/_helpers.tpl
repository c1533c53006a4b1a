{{/* The name of all resources: release and chart. A service name has at most 63 characters. */}}
{{- define "tidegate.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 53 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 53 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* The pod selector; Kubernetes does not allow changes to it. */}}
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

{{/* The whole configuration: from the chart and from the values. */}}
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

{{/* The grace period of a pod in seconds: `drain`, plus 20 for requests in flight and leases. */}}
{{- define "tidegate.gracePeriodSeconds" -}}
{{- $minutes := regexFind "[0-9]+min" .Values.config.drain | trimSuffix "min" | int -}}
{{- $seconds := regexFind "[0-9]+s$" .Values.config.drain | trimSuffix "s" | int -}}
{{- add (mul 60 $minutes) $seconds 20 -}}
{{- end -}}

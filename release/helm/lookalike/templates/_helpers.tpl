{{/* The name of all objects: that of the release, with "lookalike" in it. */}}
{{- define "lookalike.name" -}}
{{- if contains "lookalike" .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-lookalike" .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "lookalike.selector" -}}
app.kubernetes.io/name: lookalike
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "lookalike.labels" -}}
{{ include "lookalike.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "lookalike.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* A server without keys refuses host names that it does not know. */}}
{{- define "lookalike.hosts" -}}
{{- $name := include "lookalike.name" . -}}
{{- $names := list $name (printf "%s.%s" $name .Release.Namespace) -}}
{{- $names = append $names (printf "%s.%s.svc" $name .Release.Namespace) -}}
{{- $names = append $names (printf "%s.%s.svc.cluster.local" $name .Release.Namespace) -}}
{{- if .Values.ingress.enabled -}}
{{- $names = append $names .Values.ingress.host -}}
{{- end -}}
{{- join "," $names -}}
{{- end -}}

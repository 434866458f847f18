// Package transcript sends sequences of raw HTTP requests to an API server and compares the answers with those recorded
// from another one. The requests are hand-written, in files of their own; the recorded answers beside them are
// upstream's.
//
// A file of requests is a sequence of steps. Each begins with a line "## name", optionally "## name => variable",
// followed by a request line, headers, an empty line and a body:
//
//	## create a pod => pod
//	POST /api/v1/namespaces/t/pods
//	Content-Type: application/yaml
//
//	metadata: {name: web}
//
// "${pod.metadata.uid}" in a later step stands for that field of the answer. Values that differ in every run (UIDs,
// revisions, times, allocated addresses) are masked in answers. Managed fields are omitted, unless there is a line
// "@owners" before the first step.
package transcript

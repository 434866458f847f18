// Package transcript plays tables of raw HTTP requests against an API server and compares the
// answers with those recorded from another one: requests are written by hand, in files of their
// own, the answers beside them are facts about upstream.
//
// A file of requests is a sequence of steps; each begins with a line "## name", optionally
// "## name => variable", then come a request line, headers, an empty line and a body:
//
//	## create a pod => pod
//	POST /api/v1/namespaces/t/pods
//	Content-Type: application/yaml
//
//	metadata: {name: web}
//
// "${pod.metadata.uid}" in a later step stands for that field of the answer. What differs in
// every run (UIDs, revisions, times, allocated addresses) is masked in answers. Managed fields are
// left out, unless there is a line "@owners" before the first step.
package transcript

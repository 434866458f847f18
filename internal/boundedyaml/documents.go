package boundedyaml

import (
	"bytes"
	"slices"
)

// Documents splits a text into its documents, which stand between lines of three dashes, as upstream's tools do. Empty ones are
// left out.
func Documents(data []byte) [][]byte {
	var all [][]byte
	var document []byte
	for line := range bytes.Lines(data) {
		if rest, ok := bytes.CutPrefix(line, []byte("---")); ok && len(bytes.TrimSpace(rest)) == 0 {
			all = append(all, document)
			document = nil
			continue
		}
		document = append(document, line...)
	}
	return slices.DeleteFunc(append(all, document), func(d []byte) bool { return len(bytes.TrimSpace(d)) == 0 })
}

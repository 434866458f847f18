package schemata

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// runtimeFile is the name of the runtime's file in the package.
const runtimeFile = "zz_mutants.go"

// Environment variables of a test binary: the ID of the active mutant, and the file in which the IDs of reached mutants
// are recorded, one byte each.
const (
	ActiveVariable  = "MUTANTS_ACTIVE"
	ReachedVariable = "MUTANTS_REACHED"
)

//go:embed runtime.txt
var runtimeText []byte

// runtime returns the file that selects the mutant, for this package.
func (p *Package) runtime() []byte {
	text := bytes.ReplaceAll(runtimeText, []byte("PACKAGE"), []byte(p.Name))
	return bytes.ReplaceAll(text, []byte("COUNT"), []byte(strconv.Itoa(p.Size())))
}

// edit is text to insert before start and after end, or in place of what is between.
type edit struct {
	file        string
	start, end  int
	open, close string
	replace     bool
	mutant      int
}

// kinds of events, in the order in which they are applied at one offset.
const (
	closing = iota
	replacing
	opening
)

type event struct {
	offset, kind, other, order int
	text                       string
}

// render applies the edits of all mutants except the refused ones.
func (f *finder) render(sources map[string][]byte, refused map[int]bool) map[string][]byte {
	events := map[string][]event{}
	for i, e := range f.edits {
		if refused[e.mutant] {
			continue
		}
		if e.replace {
			events[e.file] = append(events[e.file], event{e.start, replacing, e.end, i, e.open})
			continue
		}
		events[e.file] = append(events[e.file], event{e.start, opening, e.end, i, e.open}, event{e.end, closing, e.start, i, e.close})
	}
	files := map[string][]byte{}
	for name, list := range events {
		files[name] = apply(sources[name], list)
	}
	return files
}

// apply nests edits at the same place like their nodes; of several edits of one node the first is the outermost.
func apply(src []byte, events []event) []byte {
	slices.SortFunc(events, func(a, b event) int {
		if c := cmp.Or(cmp.Compare(a.offset, b.offset), cmp.Compare(a.kind, b.kind), cmp.Compare(b.other, a.other)); c != 0 {
			return c
		}
		if a.kind == closing {
			return cmp.Compare(b.order, a.order)
		}
		return cmp.Compare(a.order, b.order)
	})
	var out bytes.Buffer
	at := 0
	for _, e := range events {
		out.Write(src[at:e.offset])
		at = e.offset
		out.WriteString(e.text)
		if e.kind == replacing {
			at = e.other
		}
	}
	out.Write(src[at:])
	return out.Bytes()
}

// WriteOverlay writes the rewritten files into dir and returns the path of the file for the go command's -overlay.
func (p *Package) WriteOverlay(dir string) (string, error) {
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	write := func(original string, src []byte) error {
		name := filepath.Join(dir, strconv.Itoa(len(overlay.Replace))+".go")
		overlay.Replace[original] = name
		return os.WriteFile(name, src, 0o644)
	}
	for original, src := range p.files {
		if err := write(original, src); err != nil {
			return "", err
		}
	}
	if err := write(filepath.Join(p.Dir, runtimeFile), p.runtime()); err != nil {
		return "", err
	}
	data, err := json.Marshal(overlay)
	if err != nil {
		return "", fmt.Errorf("overlay: %w", err)
	}
	name := filepath.Join(dir, "overlay.json")
	return name, os.WriteFile(name, data, 0o644)
}

// Reached returns the IDs of the mutants in a file written by a test binary.
func Reached(data []byte) map[int]bool {
	ids := map[int]bool{}
	for id, b := range data {
		if b != 0 {
			ids[id] = true
		}
	}
	return ids
}

// Size is the required length of the file of reached mutants when the test binary starts.
func (p *Package) Size() int { return max(p.count, 1) }

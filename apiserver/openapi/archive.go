package openapi

import (
	"archive/zip"
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"
)

// definitions are the definitions of upstream's types: index.json names for each those it needs;
// v2/PACKAGE.json and v3/PACKAGE.json are an object of definitions, a line for each member.
//
//go:embed definitions.zip
var definitions []byte

// archive reads the embedded definitions. It keeps what it has read, so it is to be dropped after
// use. It is not safe for concurrent use.
type archive struct {
	zip   *zip.Reader
	index map[string][]string
	read  map[string]map[string][]byte // entry → definitions by name
}

func openArchive() (*archive, error) {
	z, err := zip.NewReader(bytes.NewReader(definitions), int64(len(definitions)))
	if err != nil {
		return nil, fmt.Errorf("embedded definitions: %w", err)
	}
	a := &archive{zip: z, read: map[string]map[string][]byte{}}
	data, err := a.entry("index.json")
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &a.index); err != nil {
		return nil, fmt.Errorf("embedded definitions: index: %w", err)
	}
	return a, nil
}

func (a *archive) entry(name string) ([]byte, error) {
	data, err := fs.ReadFile(a.zip, name)
	if err != nil {
		return nil, fmt.Errorf("embedded definitions: %w", err)
	}
	return data, nil
}

// has tells whether a definition is in the archive.
func (a *archive) has(name string) bool {
	_, ok := a.index[name]
	return ok
}

// definition returns the JSON of a definition in the form of "v2" or "v3".
func (a *archive) definition(version, name string) ([]byte, error) {
	entry := version + "/" + name[:strings.LastIndexByte(name, '.')] + ".json"
	if a.read[entry] == nil {
		data, err := a.entry(entry)
		if err != nil {
			return nil, err
		}
		a.read[entry] = members(data)
	}
	definition, ok := a.read[entry][name]
	if !ok {
		return nil, fmt.Errorf("embedded definitions: %s has no %s", entry, name)
	}
	return definition, nil
}

// members splits an object that has a line for each member.
func members(data []byte) map[string][]byte {
	m := map[string][]byte{}
	for line := range bytes.Lines(data) {
		name, value, ok := bytes.Cut(line, []byte(`":`))
		if ok {
			m[string(bytes.TrimPrefix(name, []byte(`"`)))] = bytes.TrimRight(value, ",\n")
		}
	}
	return m
}

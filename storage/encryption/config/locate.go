package config

import "strings"

// Resource is a kind of object as configurations name it, with its place in the store.
type Resource struct {
	Group, Name string // as in the API; the core group is empty
	// Prefix is what its records' keys start with, such as "/registry/secrets/".
	Prefix string
}

// Locate tells which resource the record of a key of the store is of. What it does not know is not encrypted. It is
// called for every record that is read or written, and must be safe for concurrent use.
type Locate func(key string) (group, name string, ok bool)

// Prefixes knows a fixed list of resources, by the longest prefix that fits, and below root, such as
// "/registry/", upstream's places of custom resources: GROUP/NAME/, where the group has a dot.
func Prefixes(root string, resources []Resource) Locate {
	known := map[string]Resource{}
	for _, r := range resources {
		known[strings.TrimSuffix(r.Prefix, "/")] = r
	}
	return func(key string) (string, string, bool) {
		for at := strings.LastIndexByte(key, '/'); at > 0; at = strings.LastIndexByte(key[:at], '/') {
			if r, ok := known[key[:at]]; ok {
				return r.Group, r.Name, true
			}
		}
		rest, ok := strings.CutPrefix(key, root)
		if !ok {
			return "", "", false
		}
		group, rest, _ := strings.Cut(rest, "/")
		name, _, ok := strings.Cut(rest, "/")
		if !ok || !strings.Contains(group, ".") {
			return "", "", false
		}
		return group, name, true
	}
}

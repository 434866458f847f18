package credentials

import (
	"cmp"
	"maps"
	"net"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/keelson-dev/keelson/cri"
)

const dockerHub = "index.docker.io"

// ring maps keys to credentials. A key is a host, possibly with wildcards and a port, and a path.
type ring map[string][]cri.Auth

// add adds the entries of a configuration.
func (r ring) add(entries map[string]entry) {
	for _, location := range slices.Sorted(maps.Keys(entries)) {
		key := keyOf(location)
		e := entries[location]
		r[key] = append(r[key], cri.Auth{Username: e.username, Password: e.password})
	}
}

// keyOf returns the key of an entry: its address without the scheme and without the version of the registry's API. For
// an invalid address it is empty, which matches no image.
func keyOf(location string) string {
	if !strings.HasPrefix(location, "https://") && !strings.HasPrefix(location, "http://") {
		location = "https://" + location
	}
	parsed, err := url.Parse(location)
	if err != nil {
		return ""
	}
	below := parsed.Path
	if strings.HasPrefix(below, "/v2/") || strings.HasPrefix(below, "/v1/") {
		below = below[len("/v2"):]
	}
	if below == "/" {
		below = ""
	}
	return parsed.Host + below
}

// lookup returns the credentials for an image, whose name begins with its registry's host. The most specific come
// first.
func (r ring) lookup(image string) []cri.Auth {
	var list []cri.Auth
	keys := slices.SortedFunc(maps.Keys(r), func(a, b string) int { return cmp.Compare(b, a) })
	for _, key := range keys {
		if matches(key, image) {
			list = append(list, r[key]...)
		}
	}
	if len(list) == 0 && onDockerHub(image) {
		return r[dockerHub]
	}
	return list
}

// onDockerHub reports whether an image is pulled from Docker Hub: its name has no host, or one of
// the Hub's own.
func onDockerHub(image string) bool {
	host, _, more := strings.Cut(image, "/")
	switch {
	case !more, host == "docker.io", host == dockerHub:
		return true
	default:
		return !strings.ContainsAny(host, ".:")
	}
}

// matches reports whether a key covers an image.
func matches(key, image string) bool {
	glob, err := url.Parse("https://" + key)
	if err != nil {
		return false
	}
	target, err := url.Parse("https://" + image)
	if err != nil {
		return false
	}
	globParts, globPort := split(glob.Host)
	parts, port := split(target.Host)
	if globPort != port || len(globParts) != len(parts) || !strings.HasPrefix(target.Path, glob.Path) {
		return false
	}
	for i, part := range globParts {
		if ok, _ := path.Match(part, parts[i]); !ok { // an invalid pattern matches nothing
			return false
		}
	}
	return true
}

// split returns the parts of a host name, and the port.
func split(address string) (parts []string, port string) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		host, port = address, ""
	}
	return strings.Split(host, "."), port
}

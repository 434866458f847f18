package ociimage

import (
	"archive/tar"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

// ErrArchive: a file is not an archive of the OCI layout, or not a complete one.
var ErrArchive = errors.New("bad image archive")

// Registry serves archives as a registry does, for pulls only. As a mirror for several hosts it gets the host in the
// parameter ns; without it, it serves the first image of a repository and tag, whatever its host. It reads archives on
// demand: they must not change.
type Registry struct {
	blobs map[string]blob       // by digest
	tags  map[reference]string  // digests
	types map[string]descriptor // manifests by digest
	order []reference
}

// blob is the place of a content.
type blob struct {
	path   string
	offset int64
	size   int64
}

// NewRegistry reads what is in the archives at the paths.
func NewRegistry(archives ...string) (*Registry, error) {
	r := &Registry{blobs: map[string]blob{}, tags: map[reference]string{}, types: map[string]descriptor{}}
	for _, path := range archives {
		if err := r.read(path); err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrArchive, path, err)
		}
	}
	return r, nil
}

func (r *Registry) read(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	var all index
	for archive := tar.NewReader(file); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if header.Name == "index.json" {
			if err := json.NewDecoder(archive).Decode(&all); err != nil {
				return fmt.Errorf("index.json: %w", err)
			}
		}
		if digest, ok := strings.CutPrefix(header.Name, blobs); ok && header.Typeflag == tar.TypeReg {
			at, err := file.Seek(0, io.SeekCurrent) // the reader does not read ahead
			if err != nil {
				return err
			}
			r.blobs["sha256:"+digest] = blob{path, at, header.Size}
		}
	}
	if len(all.Manifests) == 0 {
		return errors.New("no images in index.json")
	}
	for _, m := range all.Manifests {
		name, err := parseReference(m.Annotations[annotationName])
		if err != nil {
			return err
		}
		if _, ok := r.blobs[m.Digest]; !ok {
			return fmt.Errorf("no content of %s", m.Digest)
		}
		r.tags[name] = m.Digest
		r.types[m.Digest] = m
		r.order = append(r.order, name)
	}
	return nil
}

// ServeHTTP implements http.Handler: the pull part of the OCI distribution protocol.
func (r *Registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Docker-Distribution-Api-Version", "registry/2.0")
	rest, ok := strings.CutPrefix(req.URL.Path, "/v2/")
	switch {
	case req.Method != http.MethodGet && req.Method != http.MethodHead:
		fail(w, http.StatusMethodNotAllowed, "UNSUPPORTED", "this registry is for pulls")
	case ok && rest == "":
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, "{}\n")
	case ok && strings.Contains(rest, "/manifests/"):
		at := strings.LastIndex(rest, "/manifests/")
		r.manifest(w, req, rest[:at], rest[at+len("/manifests/"):])
	case ok && strings.Contains(rest, "/blobs/"):
		digest := rest[strings.LastIndex(rest, "/")+1:]
		if _, known := r.blobs[digest]; !known {
			fail(w, http.StatusNotFound, "BLOB_UNKNOWN", digest)
			return
		}
		r.send(w, req, digest, "application/octet-stream")
	default:
		fail(w, http.StatusNotFound, "NAME_UNKNOWN", req.URL.Path)
	}
}

func (r *Registry) manifest(w http.ResponseWriter, req *http.Request, repository, tag string) {
	digest := tag
	if !strings.HasPrefix(tag, "sha256:") {
		digest = r.find(reference{req.URL.Query().Get("ns"), repository, tag})
	}
	m, ok := r.types[digest]
	if !ok {
		fail(w, http.StatusNotFound, "MANIFEST_UNKNOWN", repository+":"+tag)
		return
	}
	w.Header().Set("Docker-Content-Digest", digest)
	r.send(w, req, digest, m.MediaType)
}

// find returns the digest of a name whose host may be empty.
func (r *Registry) find(wanted reference) string {
	if wanted.host != "" {
		return r.tags[wanted]
	}
	for _, name := range r.order {
		if name.repository == wanted.repository && name.tag == wanted.tag {
			return r.tags[name]
		}
	}
	return ""
}

func (r *Registry) send(w http.ResponseWriter, req *http.Request, digest, mediaType string) {
	b := r.blobs[digest]
	file, err := os.Open(b.path)
	if err != nil {
		fail(w, http.StatusInternalServerError, "UNKNOWN", "the archive cannot be read any more")
		return
	}
	defer func() { _ = file.Close() }()
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Etag", `"`+digest+`"`)
	http.ServeContent(w, req, "", time.Time{}, io.NewSectionReader(file, b.offset, b.size))
}

// fail answers as registries do.
func fail(w http.ResponseWriter, code int, name, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	fmt.Fprintf(w, "{\"errors\":[{\"code\":%q,\"message\":%s}]}\n", name, quoted(message))
}

// quoted is a string in JSON.
func quoted(s string) []byte {
	data, err := json.Marshal(s)
	if err != nil {
		return []byte(`""`)
	}
	return data
}

// Private requires a user's name and password.
func Private(inner http.Handler, user, password string) http.Handler {
	wanted := sha256.Sum256([]byte(user + "\x00" + password))
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		name, word, ok := req.BasicAuth()
		given := sha256.Sum256([]byte(name + "\x00" + word))
		if !ok || subtle.ConstantTimeCompare(given[:], wanted[:]) != 1 {
			w.Header().Set("Www-Authenticate", `Basic realm="registry"`)
			fail(w, http.StatusUnauthorized, "UNAUTHORIZED", "authentication required")
			return
		}
		inner.ServeHTTP(w, req)
	})
}

// Digests returns the digests of the images in an archive by their full names, as a runtime reports them. It fails with
// ErrArchive if the archive does not name its images.
func Digests(archive string) (map[string]string, error) {
	r, err := NewRegistry(archive)
	if err != nil {
		return nil, err
	}
	digests := map[string]string{}
	for name, digest := range r.tags {
		digests[name.host+"/"+name.repository+":"+name.tag] = digest
	}
	return digests, nil
}

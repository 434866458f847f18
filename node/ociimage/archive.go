package ociimage

import (
	"archive/tar"
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// The media types and annotations of the OCI image format that archives use. Layers are not compressed, since archives
// are imported on the same host.
const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar"

	annotationName = "io.containerd.image.name"
	annotationTag  = "org.opencontainers.image.ref.name"

	blobs = "blobs/sha256/"
)

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Config        descriptor   `json:"config"`
	Layers        []descriptor `json:"layers"`
}

type index struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Manifests     []descriptor `json:"manifests"`
}

type imageConfig struct {
	Created      time.Time `json:"created"`
	Architecture string    `json:"architecture"`
	OS           string    `json:"os"`
	Config       Config    `json:"config"`
	RootFS       rootFS    `json:"rootfs"`
}

type rootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

// reference is a full name of an image.
type reference struct{ host, repository, tag string }

// parseReference parses names that have a host, a repository and a tag.
func parseReference(name string) (reference, error) {
	host, rest, ok := strings.Cut(name, "/")
	repository, tag, tagged := strings.Cut(rest, ":")
	if !ok || !tagged || !strings.ContainsAny(host, ".:") || repository == "" || tag == "" || strings.ContainsAny(tag, ":/@") {
		return reference{}, fmt.Errorf("%q is not host/repository:tag", name)
	}
	return reference{host, repository, tag}, nil
}

// writeArchive writes the images over the tree's layer, and returns the archive's size.
func writeArchive(to, scratch string, tree *Tree, images []Image) (size int64, err error) {
	file, err := os.Create(to)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	a := archive{tar: tar.NewWriter(file), scratch: scratch, have: map[string]bool{}}
	a.dir("blobs/")
	a.dir(blobs)
	common := a.layer(tree)
	all := index{SchemaVersion: 2, MediaType: typeIndex}
	for _, i := range images {
		layers := []descriptor{common}
		if i.Extra != nil {
			over := &Tree{}
			if err := i.Extra(over); err != nil {
				return 0, err
			}
			layers = append(layers, a.layer(over))
		}
		one := a.image(i.Config, layers)
		for _, name := range i.References {
			r, err := parseReference(name)
			if err != nil {
				return 0, err
			}
			named := one
			named.Annotations = map[string]string{annotationName: name, annotationTag: r.tag}
			all.Manifests = append(all.Manifests, named)
		}
	}
	a.json("index.json", all)
	a.json("oci-layout", map[string]string{"imageLayoutVersion": "1.0.0"})
	if err := errors.Join(a.err, a.tar.Close()); err != nil {
		return 0, err
	}
	return file.Seek(0, io.SeekCurrent)
}

// writeLayer writes the tree to a file.
func writeLayer(path string, tree *Tree) (_ descriptor, err error) {
	file, err := os.Create(path)
	if err != nil {
		return descriptor{}, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	hash := sha256.New()
	buffered := bufio.NewWriterSize(io.MultiWriter(file, hash), 1<<20)
	if err := errors.Join(tree.write(buffered), buffered.Flush()); err != nil {
		return descriptor{}, err
	}
	size, err := file.Seek(0, io.SeekCurrent)
	return descriptor{MediaType: typeLayer, Digest: "sha256:" + hex.EncodeToString(hash.Sum(nil)), Size: size}, err
}

// archive writes the parts of an archive and keeps the first error.
type archive struct {
	tar     *tar.Writer
	scratch string
	have    map[string]bool
	err     error
}

// layer writes a tree as a layer.
func (a *archive) layer(tree *Tree) descriptor {
	path := filepath.Join(a.scratch, "draft.layer")
	layer, err := writeLayer(path, tree)
	if err != nil {
		a.err = errors.Join(a.err, err)
		return layer
	}
	content, err := os.Open(path)
	if err != nil {
		a.err = errors.Join(a.err, err)
		return layer
	}
	defer func() { _ = content.Close() }()
	a.file(blobs+strings.TrimPrefix(layer.Digest, "sha256:"), content, layer.Size)
	return layer
}

// image writes the configuration and the manifest of an image.
func (a *archive) image(config Config, layers []descriptor) descriptor {
	system := rootFS{Type: "layers"}
	for _, l := range layers {
		system.DiffIDs = append(system.DiffIDs, l.Digest)
	}
	described := a.blob(typeConfig, imageConfig{
		Created: written(), Architecture: runtime.GOARCH, OS: "linux", Config: config, RootFS: system,
	})
	return a.blob(typeManifest, manifest{SchemaVersion: 2, MediaType: typeManifest, Config: described, Layers: layers})
}

func (a *archive) dir(name string) {
	if a.err == nil {
		a.err = a.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755, ModTime: written()})
	}
}

func (a *archive) file(name string, content io.Reader, size int64) {
	if a.err != nil || a.have[name] {
		return
	}
	a.have[name] = true
	if a.err = a.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644, ModTime: written()}); a.err == nil {
		_, a.err = io.Copy(a.tar, content)
	}
}

func (a *archive) json(name string, content any) {
	data, err := json.Marshal(content)
	if err != nil {
		a.err = errors.Join(a.err, err)
	}
	a.file(name, bytes.NewReader(data), int64(len(data)))
}

// blob writes content under its digest.
func (a *archive) blob(mediaType string, content any) descriptor {
	data, err := json.Marshal(content)
	if err != nil {
		a.err = errors.Join(a.err, err)
	}
	sum := sha256.Sum256(data)
	digest := hex.EncodeToString(sum[:])
	a.file(blobs+digest, bytes.NewReader(data), int64(len(data)))
	return descriptor{MediaType: mediaType, Digest: "sha256:" + digest, Size: int64(len(data))}
}

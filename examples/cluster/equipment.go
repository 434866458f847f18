package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/keelson-dev/keelson/node/nodetools"
	"github.com/keelson-dev/keelson/node/ociimage"
)

// equip finds or installs the programs of a node.
func (m *machines) equip(ctx context.Context) (err error) {
	if !m.settings.install {
		m.tools, err = nodetools.Find(nodetools.Options{})
		var missing *nodetools.MissingError
		if m.settings.down && errors.As(err, &missing) {
			return nil // the nodes to remove may be older than the tools
		}
		return err
	}
	m.tools, err = nodetools.Install(ctx, nodetools.Options{Progress: func(line string) { m.say("%s", line) }})
	return err
}

// images returns the archives to start with: those of --images, or some for a first deployment if an installation
// reaches no registry.
func (m *machines) images(ctx context.Context) ([]string, error) {
	if m.settings.images != "" {
		return archivesAt(m.settings.images)
	}
	if !m.settings.install || m.settings.mirror != "" || reachable(ctx) {
		return nil, nil
	}
	m.say("no registry of images can be reached: making images of nginx and busybox")
	nginx, err := ociimage.Nginx(ctx, m.tools.Images, m.out)
	if err != nil {
		return nil, err
	}
	busybox, err := ociimage.Busybox(ctx, m.tools.Images, m.out)
	return []string{nginx, busybox}, err
}

// dockerHub is the registry of images without a registry in their name.
const dockerHub = "https://registry-1.docker.io/v2/"

// reachable reports whether Docker Hub answers, whatever the answer.
func reachable(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, dockerHub, nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode < http.StatusInternalServerError
}

// archivesAt returns the archives that a path names: the file itself, or those in the directory.
func archivesAt(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("--images: %w; name an archive of images or a directory of some", err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	list, err := filepath.Glob(filepath.Join(path, "*.tar"))
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("--images: %s has no *.tar; name an archive of images or a directory of some", path)
	}
	return list, err
}

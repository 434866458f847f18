package static

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/keelson-dev/keelson/podspec/origin"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/informer"
)

const (
	defaultPeriod = 20 * time.Second
	maxManifest   = 10 << 20
)

// Options configures a Directory. The zero value is valid.
type Options struct {
	// Prepare sets a pod's defaults and validates it, like the API server; it is called with the pod's final name. Nil
	// leaves pods unchanged.
	Prepare func(*corev1.Pod) error
	// Period is how often the directory is read without a notification; 0 is 20 s.
	Period time.Duration
	// Logger records invalid files; nil discards them.
	Logger *slog.Logger
}

// Directory provides the static pods of one node. Make one with New.
type Directory struct {
	path, node string
	options    Options

	mu       sync.Mutex
	files    map[string]manifest
	pods     map[string]*corev1.Pod // by namespace/name; shared, never modified
	revision uint64
}

var _ informer.Source[*corev1.Pod] = (*Directory)(nil)

// manifest is what is known about one file.
type manifest struct {
	content string
	pod     *corev1.Pod // the last valid one
	problem string      // with the content or with using its pod
}

// New makes a Directory of the manifests in path, for the node. The path may also be a single
// file, and it may not exist yet. Nothing is read until List.
func New(path, node string, o Options) (*Directory, error) {
	if path == "" || node == "" {
		return nil, errors.New("static pods need a path and a node")
	}
	o.Period = cmp.Or(o.Period, defaultPeriod)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Directory{
		path: filepath.Clean(path), node: node, options: o,
		files: map[string]manifest{}, pods: map[string]*corev1.Pod{}, revision: 1,
	}, nil
}

// List reads the directory and returns its pods, in the order of their namespaces and names. A
// directory that does not exist has none. It fails when the directory cannot be read.
func (d *Directory) List(ctx context.Context) ([]*corev1.Pod, string, error) {
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.scan(); err != nil {
		return nil, "", err
	}
	return inOrder(d.pods), d.version(), nil
}

// inOrder returns pods in the order of their keys.
func inOrder(pods map[string]*corev1.Pod) []*corev1.Pod {
	list := make([]*corev1.Pod, 0, len(pods))
	for _, pod := range pods {
		list = append(list, pod)
	}
	slices.SortFunc(list, func(a, b *corev1.Pod) int { return cmp.Compare(keyOf(a), keyOf(b)) })
	return list
}

func keyOf(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }

func (d *Directory) version() string { return strconv.FormatUint(d.revision, 10) }

// look reads the directory again and returns its pods.
func (d *Directory) look() (map[string]*corev1.Pod, string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.scan()
	return d.pods, d.version(), err
}

// scan reads the directory, and replaces the map of pods if they have changed. The lock is held.
func (d *Directory) scan() error {
	names, err := d.list()
	if err != nil {
		return err
	}
	files := make(map[string]manifest, len(names))
	pods := make(map[string]*corev1.Pod, len(names))
	for _, name := range names {
		m, ok := d.read(name)
		if !ok {
			continue
		}
		if m.pod != nil {
			if _, taken := pods[keyOf(m.pod)]; taken {
				m.problem = fmt.Sprintf("there is another pod %s in namespace %s", m.pod.Name, m.pod.Namespace)
			} else {
				pods[keyOf(m.pod)] = m.pod
			}
		}
		if m.problem != "" && m.problem != d.files[name].problem {
			d.options.Logger.Warn("a static pod's manifest cannot be used", "file", name, "problem", m.problem)
		}
		files[name] = m
	}
	d.files = files
	if !reflect.DeepEqual(pods, d.pods) {
		d.pods = pods
		d.revision++
	}
	return nil
}

// list returns the files to read, in order.
func (d *Directory) list() ([]string, error) {
	info, err := os.Stat(d.path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case info.Mode().IsRegular():
		return []string{d.path}, nil
	case !info.IsDir():
		return nil, fmt.Errorf("%s is not a directory or file", d.path)
	}
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			names = append(names, filepath.Join(d.path, e.Name()))
		}
	}
	return names, nil
}

// read reads one file; ok is false if it is gone or a directory.
func (d *Directory) read(name string) (m manifest, ok bool) {
	before, known := d.files[name]
	content, err := readRegular(name)
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, errNotRegular):
		return manifest{}, false
	case err != nil:
		before.problem = err.Error()
		return before, true
	case known && content == before.content && before.problem == "":
		return before, true
	}
	m = manifest{content: content, pod: before.pod}
	pod, err := decode([]byte(content), place{file: name, node: d.node}, d.options.Prepare)
	if err != nil {
		m.problem = err.Error()
		return m, true
	}
	m.pod = successor(before.pod, pod)
	return m, true
}

var errNotRegular = errors.New("not a file")

func readRegular(name string) (string, error) {
	info, err := os.Stat(name)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", errNotRegular
	}
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // only read
	content, err := io.ReadAll(io.LimitReader(f, maxManifest+1))
	if err == nil && len(content) > maxManifest {
		err = fmt.Errorf("the manifest is larger than %d bytes", maxManifest)
	}
	return string(content), err
}

// successor reconciles a newly read pod with the one read before from the same file: it returns the same object if only
// the file's formatting has changed, and a later generation if the UID is the same.
func successor(before, pod *corev1.Pod) *corev1.Pod {
	pod.Generation = 1
	pod.Annotations[origin.SeenAnnotation] = time.Now().Format(time.RFC3339Nano)
	if before == nil || before.UID != pod.UID || keyOf(before) != keyOf(pod) {
		return pod
	}
	pod.Annotations[origin.SeenAnnotation] = before.Annotations[origin.SeenAnnotation]
	pod.Generation = before.Generation
	if reflect.DeepEqual(before, pod) {
		return before
	}
	pod.Generation++
	return pod
}

package containerd_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/keelson-dev/keelson/node/containerd"
	"github.com/keelson-dev/keelson/node/nodetools"
)

func TestNewRejects(t *testing.T) {
	for name, c := range map[string]struct {
		dir string
		o   containerd.Options
	}{
		"no directory":        {"", containerd.Options{}},
		"a colon":             {"/x:y", containerd.Options{}},
		"a comma":             {"/x,y", containerd.Options{}},
		"a backslash":         {`/x\y`, containerd.Options{}},
		"a line break":        {"/x\ny", containerd.Options{}},
		"a log level":         {"/x", containerd.Options{LogLevel: "loud"}},
		"a mirror's scheme":   {"/x", containerd.Options{Mirrors: map[string][]string{"docker.io": {"ftp://x"}}}},
		"a mirror's host":     {"/x", containerd.Options{Mirrors: map[string][]string{"docker.io": {"http://"}}}},
		"a mirror's registry": {"/x", containerd.Options{Mirrors: map[string][]string{"../docker.io": {"http://x"}}}},
		"runc again":          {"/x", containerd.Options{Handlers: map[string]containerd.Handler{"runc": {}}}},
		"a handler's name":    {"/x", containerd.Options{Handlers: map[string]containerd.Handler{"a b": {}}}},
		"no handler's name":   {"/x", containerd.Options{Handlers: map[string]containerd.Handler{"": {}}}},
		"a handler's binary":  {"/x", containerd.Options{Handlers: map[string]containerd.Handler{"other": {Binary: "crun"}}}},
		"no path":             {"/x", containerd.Options{Handlers: map[string]containerd.Handler{"other": {Binary: "/a\nb"}}}},
		"an annotation":       {"/x", containerd.Options{Handlers: map[string]containerd.Handler{"other": {Annotations: []string{"a\nb"}}}}},
		"no registry":         {"/x", containerd.Options{Mirrors: map[string][]string{"..": {"http://x"}}}},
		"an image":            {"/x", containerd.Options{SandboxImage: "a\nb"}},
		"a long run dir":      {"/x", containerd.Options{RunDir: "/run/" + strings.Repeat("x", 30)}},
		"a relative run dir":  {"/x", containerd.Options{RunDir: "run"}},
		"a cgroup":            {"/x", containerd.Options{CgroupRoot: "../x"}},
		"all cgroups":         {"/x", containerd.Options{CgroupRoot: "."}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := containerd.New(c.dir, nodetools.Tools{}, c.o); !errors.Is(err, containerd.ErrConfig) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestSocketsAreShort(t *testing.T) {
	seen := map[string]string{}
	for _, dir := range []string{"/a", "/b", "/" + strings.Repeat("long/", 100)} {
		d, err := containerd.New(dir, nodetools.Tools{}, containerd.Options{RunDir: "/run/" + strings.Repeat("x", 24)})
		if err != nil {
			t.Fatal(err)
		}
		if len(d.Socket()) > 64 {
			t.Errorf("%d bytes: %s", len(d.Socket()), d.Socket())
		}
		if other, ok := seen[d.Socket()]; ok {
			t.Errorf("%s and %s share %s", dir, other, d.Socket())
		}
		seen[d.Socket()] = dir
	}
}

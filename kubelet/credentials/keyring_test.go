package credentials_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/kubelet/credentials"
)

// secrets are image pull secrets by name, all in namespace ns.
type secrets map[string]*corev1.Secret

func (s secrets) Secret(_ context.Context, namespace, name string) (*corev1.Secret, error) {
	if found, ok := s[name]; ok && namespace == "ns" {
		return found, nil
	}
	return nil, errors.New("no such secret")
}

func configJSON(text string) *corev1.Secret {
	return &corev1.Secret{
		Type: corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(text)},
	}
}

func legacy(text string) *corev1.Secret {
	return &corev1.Secret{Type: corev1.SecretTypeDockercfg, Data: map[string][]byte{corev1.DockerConfigKey: []byte(text)}}
}

// auths is a docker configuration in which each location's user name is the location itself.
func auths(locations ...string) string {
	var list []string
	for _, l := range locations {
		list = append(list, fmt.Sprintf("%q: {\"username\": %q, \"password\": \"p\"}", l, l))
	}
	return `{"auths": {` + strings.Join(list, ", ") + `}}`
}

func newPod(names ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}}
	for _, n := range names {
		pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: n})
	}
	return pod
}

func users(list []cri.Auth) string {
	var names []string
	for _, a := range list {
		names = append(names, a.Username)
	}
	return strings.Join(names, " ")
}

func TestWhichEntryIsFor(t *testing.T) {
	for _, test := range []struct{ entries, image, want string }{
		{"registry.example", "registry.example/a", "registry.example"},
		{"https://registry.example", "registry.example/a:v1", "https://registry.example"},
		{"http://registry.example/v2/", "registry.example/a/b@sha256:" + strings.Repeat("0", 64), "http://registry.example/v2/"},
		{"https://registry.example/v1/team", "registry.example/team/a", "https://registry.example/v1/team"},
		{"registry.example/team", "registry.example/other/a", ""},
		{"registry.example/team", "registry.example/teams/a", "registry.example/team"},
		{"registry.example/team", "registry.example/team/a", "registry.example/team"},
		{"registry.example registry.example/team registry.example/team/a", "registry.example/team/a",
			"registry.example/team/a registry.example/team registry.example"},
		{"*.example", "registry.example/a", "*.example"},
		{"*.example", "a.b.example/a", ""},
		{"*.*.example", "a.b.example/a", "*.*.example"},
		{"reg*.example", "registry.example/a", "reg*.example"},
		{"*.registry.example", "registry.example/a", ""},
		{"[.example", "registry.example/a", ""},
		{"registry.example", "registry.example:5000/a", ""},
		{"registry.example:5000", "registry.example:5000/a", "registry.example:5000"},
		{"*.example:5000 *.example", "registry.example:5000/a", "*.example:5000"},
		{"registry.example:5000", "registry.example/a", ""},
		{"localhost:5000/a", "localhost:5000/a/b", "localhost:5000/a"},
		{"https://index.docker.io/v1/", "nginx", "https://index.docker.io/v1/"},
		{"https://index.docker.io/v1/", "team/app:1", "https://index.docker.io/v1/"},
		{"index.docker.io", "docker.io/library/nginx", "index.docker.io"},
		{"docker.io", "nginx", "docker.io"},
		{"docker.io index.docker.io", "nginx", "docker.io"},
		{"docker.io/library", "team/app", ""},
		{"index.docker.io", "quay.io/a", ""},
		{"index.docker.io", "localhost/a", "index.docker.io"}, // as upstream
		{"*", "registry.example/a", ""},
		{"%zz", "registry.example/a", ""},
		{"%zz", "localhost/a", ""},
		{"registry.example/%25zz", "registry.example/a", ""},
	} {
		t.Run(test.entries+" for "+test.image, func(t *testing.T) {
			k, err := credentials.New(secrets{"s": configJSON(auths(strings.Fields(test.entries)...))}, credentials.Options{})
			if err != nil {
				t.Fatal(err)
			}
			got, err := k.For(t.Context(), newPod("s"), test.image)
			if err != nil || users(got) != test.want {
				t.Errorf("got %q, %v; want %q", users(got), err, test.want)
			}
		})
	}
}

func TestWhatEntriesSay(t *testing.T) {
	b64 := base64.StdEncoding.EncodeToString
	raw := base64.RawStdEncoding.EncodeToString
	entry := func(text string) string { return `{"r.example": ` + text + `}` }
	for name, test := range map[string]struct {
		secret *corev1.Secret
		want   []cri.Auth
		bad    bool
	}{
		"plain":                   {secret: legacy(entry(`{"username": "u", "password": "p", "email": "e"}`)), want: []cri.Auth{{Username: "u", Password: "p"}}},
		"coded":                   {secret: legacy(entry(`{"auth": "` + b64([]byte("u:p:q")) + `"}`)), want: []cri.Auth{{Username: "u", Password: "p:q"}}},
		"base64 without padding":  {secret: legacy(entry(`{"auth": "` + raw([]byte("user:p")) + `"}`)), want: []cri.Auth{{Username: "user", Password: "p"}}},
		"base64 takes precedence": {secret: legacy(entry(`{"username": "x", "auth": "` + b64([]byte("u:p")) + `"}`)), want: []cri.Auth{{Username: "u", Password: "p"}}},
		"nothing":                 {secret: legacy(entry(`{}`)), want: []cri.Auth{{}}},
		"configuration":           {secret: configJSON(`{"auths": ` + entry(`{"username": "u"}`) + `, "HttpHeaders": {"a": "b"}, "credsStore": "x"}`), want: []cri.Auth{{Username: "u"}}},
		"no entries":              {secret: configJSON(`{}`)},
		"empty":                   {secret: configJSON(``)},
		"without its key":         {secret: &corev1.Secret{Type: corev1.SecretTypeDockercfg}},
		"another type":            {secret: &corev1.Secret{Type: corev1.SecretTypeOpaque, Data: legacy(entry(`{}`)).Data}},
		"null":                    {secret: configJSON(`null`)},
		"invalid JSON":            {secret: configJSON(`hunter2`), bad: true},
		"JSON of another shape":   {secret: legacy(`["hunter2"]`), bad: true},
		"invalid base64":          {secret: legacy(entry(`{"auth": "hunter2!"}`)), bad: true},
		"no colon":                {secret: legacy(entry(`{"auth": "` + b64([]byte("hunter2")) + `"}`)), bad: true},
		"a number as secret":      {secret: legacy(entry(`{"password": 123456}`)), bad: true},
	} {
		t.Run(name, func(t *testing.T) {
			k, err := credentials.New(secrets{"s": test.secret}, credentials.Options{})
			if err != nil {
				t.Fatal(err)
			}
			got, err := k.For(t.Context(), newPod("s"), "r.example/a")
			if errors.Is(err, credentials.ErrInvalid) != test.bad || fmt.Sprint(got) != fmt.Sprint(test.want) {
				t.Errorf("got %v, %v; want %v", got, err, test.want)
			}
			if test.bad && err.Error() != "image pull secret ns/s: no valid docker configuration" {
				t.Errorf("got %q", err)
			}
		})
	}
}

func TestOrder(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "config.json")
	if err := os.WriteFile(file, []byte(auths("*.example")), 0o600); err != nil {
		t.Fatal(err)
	}
	k, err := credentials.New(secrets{
		"a": configJSON(`{"auths": {"r.example": {"username": "a"}}}`),
		"b": legacy(`{"r.example/team": {"username": "b1"}, "https://r.example": {"username": "b2"}}`),
	}, credentials.Options{ConfigFile: file})
	if err != nil {
		t.Fatal(err)
	}
	for image, want := range map[string]string{"r.example/team/x": "b1 a b2 *.example", "s.example/x": "*.example", "quay.io/x": ""} {
		got, err := k.For(t.Context(), newPod("a", "b"), image)
		if err != nil || users(got) != want {
			t.Errorf("%s: got %q, %v; want %q", image, users(got), err, want)
		}
	}
}

func TestMissingSecrets(t *testing.T) {
	var told []events.Event
	k, err := credentials.New(secrets{"here": configJSON(auths("r.example"))}, credentials.Options{
		Recorder: events.Func(func(e events.Event) { told = append(told, e) }),
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := k.For(t.Context(), newPod("gone", "", "here", "lost"), "r.example/a")
	if err != nil || users(got) != "r.example" {
		t.Errorf("got %q, %v", users(got), err)
	}
	want := "Unable to retrieve some image pull secrets (gone, lost); attempting to pull the image may not succeed."
	if len(told) != 1 || told[0].Message != want || told[0].Reason != "FailedToRetrieveImagePullSecret" ||
		told[0].Type != corev1.EventTypeWarning || told[0].Regarding.Name != "web" {
		t.Errorf("got %+v", told)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := k.For(ctx, newPod("gone"), "r.example/a"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

func TestNodesConfiguration(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "config.json")
	var log bytes.Buffer
	k, err := credentials.New(secrets{}, credentials.Options{ConfigFile: file, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	look := func(want string) {
		t.Helper()
		got, err := k.For(t.Context(), newPod(), "r.example/a")
		if err != nil || users(got) != want {
			t.Errorf("got %q, %v; want %q", users(got), err, want)
		}
	}
	look("") // not there
	if log.Len() > 0 {
		t.Errorf("logged %s", &log)
	}
	for content, want := range map[string]string{auths("r.example"): "r.example", "hunter2": ""} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		look(want)
	}
	if err := os.Truncate(file, 11<<20); err != nil {
		t.Fatal(err)
	}
	look("")
	if lines := strings.Count(log.String(), "the node's image credentials cannot be used"); lines != 2 || strings.Contains(log.String(), "hunter2") {
		t.Errorf("logged %s", &log)
	}
}

func TestBadArguments(t *testing.T) {
	if _, err := credentials.New(nil, credentials.Options{}); err == nil {
		t.Error("a keyring without secrets")
	}
	k, err := credentials.New(secrets{}, credentials.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.For(t.Context(), newPod(), "Not An Image"); err == nil || !strings.HasPrefix(err.Error(), `couldn't parse image name "Not An Image": `) {
		t.Errorf("got %v", err)
	}
}

// FuzzFor: no configuration or image name causes a failure other than an error, and errors never contain secrets.
func FuzzFor(f *testing.F) {
	f.Add(auths("r.example"), "r.example/a", true)
	f.Add(`{"r.example":{"auth":"dTpw"}}`, "nginx", false)
	f.Add(`{"auths":{"[::1]:5000/x%zz":{"auth":"hunter2"}}}`, "localhost:5000/a@sha256:x", true)
	f.Fuzz(func(t *testing.T, config, image string, modern bool) {
		secret := legacy(config)
		if modern {
			secret = configJSON(config)
		}
		k, err := credentials.New(secrets{"s": secret}, credentials.Options{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = k.For(t.Context(), newPod("s"), image)
		if errors.Is(err, credentials.ErrInvalid) && err.Error() != "image pull secret ns/s: no valid docker configuration" {
			t.Errorf("got %q", err)
		}
	})
}

// Problems with the node's configuration are logged without its secrets; the logger is optional.
func TestNodesConfigurationThatIsNoGood(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "config.json")
	write := func(size int) {
		text := auths("r.example")
		if err := os.WriteFile(file, []byte(text+strings.Repeat(" ", size-len(text))), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, tt := range map[string]struct {
		file   string
		size   int
		want   string
		logged string
	}{
		"at the size limit": {file, 10 << 20, "r.example", ""},
		"too large":         {file, 10<<20 + 1, "", "larger than 10485760 bytes"},
		"below a file":      {filepath.Join(file, "config.json"), 100, "", "not a directory"},
		"a directory":       {dir, 100, "", "is a directory"},
		"none":              {"", 100, "", ""},
	} {
		write(tt.size)
		var log bytes.Buffer
		for _, logger := range []*slog.Logger{nil, slog.New(slog.NewTextHandler(&log, nil))} {
			k, err := credentials.New(secrets{}, credentials.Options{ConfigFile: tt.file, Logger: logger})
			if err != nil {
				t.Fatal(err)
			}
			if got, err := k.For(t.Context(), newPod(), "r.example/a"); err != nil || users(got) != tt.want {
				t.Errorf("%s: %q, %v", name, users(got), err)
			}
		}
		if tt.logged == "" && log.Len() > 0 || !strings.Contains(log.String(), tt.logged) {
			t.Errorf("%s: logged %s", name, &log)
		}
	}
}

// Truncated base64 is invalid, even if the rest contains a name and a password.
func TestAuthThatBreaksOff(t *testing.T) {
	k, err := credentials.New(secrets{"s": configJSON(`{"auths": {"r.example": {"auth": "dTpw!"}}}`)}, credentials.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := k.For(t.Context(), newPod("s"), "r.example/a"); !errors.Is(err, credentials.ErrInvalid) {
		t.Errorf("%v, %v", got, err)
	}
}

// A missing secret is reported in an event, if there is a recorder; an existing one is not.
func TestWhatIsTold(t *testing.T) {
	told := 0
	for _, o := range []credentials.Options{{}, {Recorder: events.Func(func(events.Event) { told++ })}} {
		k, err := credentials.New(secrets{"s": configJSON(auths("r.example"))}, o)
		if err != nil {
			t.Fatal(err)
		}
		for _, names := range [][]string{{"s"}, {}, {""}, {"missing", "s"}} {
			want := ""
			if len(names) > 0 && names[len(names)-1] == "s" {
				want = "r.example"
			}
			if got, err := k.For(t.Context(), newPod(names...), "r.example/a"); err != nil || users(got) != want {
				t.Errorf("%v: %q, %v", names, users(got), err)
			}
		}
	}
	if told != 1 {
		t.Errorf("told %d times", told)
	}
}

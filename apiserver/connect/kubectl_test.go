package connect_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clientscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/internal/kubectl"
)

func codecs() runtime.NegotiatedSerializer {
	return serializer.WithoutConversionCodecFactory{CodecFactory: clientscheme.Codecs}
}

// call is one run of kubectl and what it must answer.
type call struct {
	args   string // split at spaces; a part may be quoted by '
	stdin  string
	stdout string
	stderr string // is contained
	code   int
}

func split(s string) []string {
	var all []string
	for i, part := range strings.Split(s, "'") {
		if i%2 == 1 {
			all = append(all, part)
		} else {
			all = append(all, strings.Fields(part)...)
		}
	}
	return all
}

func check(t *testing.T, k kubectl.Kubectl, calls []call) {
	t.Helper()
	for _, c := range calls {
		got, err := k.Run(t.Context(), c.stdin, split(c.args)...)
		if err != nil {
			t.Fatal(err)
		}
		if got.Code != c.code || got.Stdout != c.stdout || !strings.Contains(got.Stderr, c.stderr) || c.stderr == "" && got.Stderr != "" {
			t.Errorf("kubectl %s\n got code %d\n%q\n%q\nwant code %d\n%q\n%q", c.args, got.Code, got.Stdout, got.Stderr, c.code, c.stdout, c.stderr)
		}
	}
}

func TestLogsAndExec(t *testing.T) {
	w := start(t)
	_, cs := w.pod(t, "p", "main")
	w.write(t, cs[0], "2026-01-02T03:04:05.1Z stdout F one", "2026-01-02T03:04:06Z stderr F two")
	k := w.kubectl(t, "admin", authn.GroupMasters)
	check(t, k, []call{
		{args: "logs p", stdout: "one\ntwo\n"},
		{args: "logs p --tail=1 --timestamps", stdout: "2026-01-02T03:04:06.000000000Z two\n"},
		{args: "exec p -- sh -c 'echo out; echo err >&2; exit 3'", stdout: "out\n", stderr: "err\ncommand terminated with exit code 3\n", code: 3},
		{args: "exec -i p -- cat", stdin: "hello", stdout: "hello"},
		{args: "exec p -c none -- cat", stderr: "container none is not valid for pod p", code: 1},
	})
}

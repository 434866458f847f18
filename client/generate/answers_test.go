package generate_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/keelson-dev/keelson/client/message"
	"github.com/keelson-dev/keelson/internal/kubectlargs"
)

// answer is what kubectl answers to a command: objects or an error.
type answer struct {
	command string
	objects []any
	failure string
}

// answers reads what conformance/client recorded.
func answers(t *testing.T) []answer {
	t.Helper()
	data, err := os.ReadFile("answers.txt")
	if err != nil {
		t.Fatal(err)
	}
	var all []answer
	for block := range strings.SplitSeq(strings.TrimPrefix(string(data), "$ "), "\n$ ") {
		command, rest, _ := strings.Cut(block, "\n")
		a := answer{command: command}
		if failure, failed := strings.CutPrefix(rest, "! "); failed {
			a.failure = strings.ReplaceAll(strings.TrimSuffix(failure, "\n"), "\n! ", "\n")
		} else {
			for doc := range strings.SplitSeq(rest, "\n---\n") {
				var obj any
				if err := yaml.Unmarshal([]byte(doc), &obj); err != nil {
					t.Fatal(err)
				}
				a.objects = append(a.objects, obj)
			}
		}
		all = append(all, a)
	}
	return all
}

// generic is an object as any reader of JSON sees it.
func generic(t *testing.T, obj runtime.Object) any {
	t.Helper()
	data, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// ownWords are the failures that are worded another way than kubectl's, which says why.
func ownWords() map[string]string {
	return map[string]string{
		"create deployment":                            "error: name must be specified",                                   // kubectl looks for flags first
		"create configmap c --from-env-file=latin.env": "error: env file latin.env contains invalid utf8 bytes at line 1", // kubectl shows them
	}
}

func TestAnswers(t *testing.T) {
	t.Chdir("testdata")
	all := answers(t)
	if len(all) < 140 {
		t.Fatalf("only %d answers", len(all))
	}
	for _, a := range all {
		t.Run(a.command, func(t *testing.T) {
			objects, err := kubectlargs.Objects(strings.Fields(a.command))
			if ours := ownWords()[a.command]; ours != "" {
				a.failure = ours
			}
			if got := message.Of(err); got != a.failure {
				t.Fatalf("error\n%q, kubectl's\n%q", got, a.failure)
			}
			var got []any
			for _, obj := range objects {
				got = append(got, generic(t, obj))
			}
			if diff := cmp.Diff(a.objects, got); diff != "" {
				t.Errorf("kubectl's (-), ours (+):\n%s", diff)
			}
		})
	}
}

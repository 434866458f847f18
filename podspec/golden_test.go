package podspec_test

import (
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/keelson-dev/keelson/podspec"
)

var update = flag.Bool("update", false, "write what is found into the files of testdata")

// goldenCase is one case of a file in testdata: a title, documents, and the errors expected.
type goldenCase struct {
	title string
	docs  []string
	want  string
}

// readCases reads a file of cases: a line "### title", documents ending in a line "---", then one error per line, none
// if the object is accepted.
func readCases(t *testing.T, file string) []goldenCase {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var cases []goldenCase
	for part := range strings.SplitSeq(string(text), "### ") {
		title, rest, ok := strings.Cut(part, "\n")
		if !ok || title == "" {
			continue
		}
		parts := strings.Split(rest, "---\n")
		last := len(parts) - 1
		cases = append(cases, goldenCase{title: title, docs: parts[:last], want: strings.TrimSpace(parts[last])})
	}
	return cases
}

func golden(t *testing.T, file string, judge func(t *testing.T, docs []string) field.ErrorList) {
	cases := readCases(t, file)
	var out strings.Builder
	for _, c := range cases {
		t.Run(c.title, func(t *testing.T) {
			var lines []string
			for _, err := range judge(t, c.docs) {
				lines = append(lines, strings.ReplaceAll(err.Error(), "\n", "\\n"))
			}
			got := strings.Join(lines, "\n")
			out.WriteString("### " + c.title + "\n" + strings.Join(c.docs, "---\n") + "---\n" + got + "\n\n")
			if got != c.want && !*update {
				t.Errorf("got:\n%s\nwant:\n%s", got, c.want)
			}
		})
	}
	if *update {
		if err := os.WriteFile(file, []byte(strings.TrimSpace(out.String())+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// decode merges a document into a copy of base and adds a container if there is none.
func decode(t *testing.T, doc string, base *corev1.Pod) *corev1.Pod {
	pod := base.DeepCopy()
	if err := yaml.UnmarshalStrict([]byte(doc), pod); err != nil {
		t.Fatal(err)
	}
	if pod.Spec.Containers == nil {
		pod.Spec.Containers = []corev1.Container{{Name: "web", Image: "nginx"}}
	}
	podspec.DefaultPod(pod)
	return pod
}

func newPod() *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"}}
}

func TestValidateCreate(t *testing.T) {
	golden(t, "testdata/create.txt", func(t *testing.T, docs []string) field.ErrorList {
		return podspec.ValidateCreate(decode(t, docs[0], newPod()))
	})
}

// TestValidateUpdates merges the second document into the pod of the first.
func TestValidateUpdates(t *testing.T) {
	for file, judge := range map[string]func(pod, old *corev1.Pod) field.ErrorList{
		"update":    podspec.ValidateUpdate,
		"status":    podspec.ValidateStatusUpdate,
		"ephemeral": podspec.ValidateEphemeralContainersUpdate,
		"resize":    podspec.ValidateResize,
	} {
		t.Run(file, func(t *testing.T) {
			golden(t, "testdata/"+file+".txt", func(t *testing.T, docs []string) field.ErrorList {
				old := decode(t, docs[0], newPod())
				pod := decode(t, docs[1], old)
				before, after := old.DeepCopy(), pod.DeepCopy()
				errs := judge(pod, old)
				if !reflect.DeepEqual(pod, after) || !reflect.DeepEqual(old, before) {
					t.Error("validation changed its arguments")
				}
				return errs
			})
		})
	}
}

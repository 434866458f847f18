package printer_test

import (
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/keelson-dev/keelson/client/printer"
)

func ExampleNew() {
	web := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.PodSpec{NodeName: "node-1"}}
	for _, form := range []string{"", "name", "jsonpath={.spec.nodeName}{'\\n'}"} {
		p, err := printer.New(form, printer.Options{Operation: "created", Kinds: scheme.Scheme})
		if err != nil {
			fmt.Println(err)
			return
		}
		if err := p.Print(os.Stdout, web); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// pod/web created
	// pod/web
	// node-1
}

// A server that is asked with TableAccept answers with a table of its kind.
func ExampleNew_table() {
	answer := &metav1.Table{
		ColumnDefinitions: []metav1.TableColumnDefinition{
			{Name: "Name", Type: "string", Format: "name"}, {Name: "Ready", Type: "string"}, {Name: "Node", Type: "string", Priority: 1},
		},
		Rows: []metav1.TableRow{{Cells: []any{"web", "1/1", "node-1"}}, {Cells: []any{"database", "0/1", "<none>"}}},
	}
	p, err := printer.New("wide", printer.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.Print(os.Stdout, answer))
	// Output:
	// NAME       READY   NODE
	// web        1/1     node-1
	// database   0/1     <none>
	// <nil>
}

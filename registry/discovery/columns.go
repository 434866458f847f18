package discovery

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry"
)

func sliceColumns() registry.Columns[*discoveryv1.EndpointSlice] {
	doc := discoveryv1.EndpointSlice{}.SwaggerDoc()
	return registry.Columns[*discoveryv1.EndpointSlice]{
		Definitions: []metav1.TableColumnDefinition{
			registry.NameColumn(),
			registry.TextColumn("AddressType", doc["addressType"]),
			registry.TextColumn("Ports", doc["ports"]),
			registry.TextColumn("Endpoints", doc["endpoints"]),
			registry.AgeColumn(),
		},
		Cells: func(s *discoveryv1.EndpointSlice, now time.Time) []any {
			ports, addresses := first{}, first{}
			for _, p := range s.Ports {
				switch {
				case p.Port != nil:
					ports.add(strconv.Itoa(int(*p.Port)))
				case p.Name != nil:
					ports.add(*p.Name)
				default:
					ports.add("*")
				}
			}
			for _, e := range s.Endpoints {
				for _, address := range e.Addresses {
					addresses.add(address)
				}
			}
			return []any{s.Name, string(s.AddressType), ports.String(), addresses.String(), registry.Age(s.CreationTimestamp, now)}
		},
	}
}

// first formats the first three elements of a list, and the number of the others.
type first struct {
	shown []string
	more  int
}

func (f *first) add(s string) {
	if len(f.shown) < 3 {
		f.shown = append(f.shown, s)
	} else {
		f.more++
	}
}

// String returns the cell.
func (f *first) String() string {
	list := strings.Join(f.shown, ",")
	switch {
	case f.more > 0:
		return fmt.Sprintf("%s + %d more...", list, f.more)
	case list == "":
		return "<unset>"
	}
	return list
}

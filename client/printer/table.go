package printer

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/liggitt/tabwriter"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/watch"
)

// TableAccept is the Accept header of a request whose answer is to be a table, where the server can
// make one. With SortBy the query includeObject=Object goes with it.
const TableAccept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"

// flushRows is after how many rows a table is written, to bound the memory it takes.
const flushRows = 100

// Aligned is a writer in which several calls of Print share their columns: it writes when Flush is
// called. Widths are remembered, so that a watch which is flushed after every event stays aligned.
type Aligned struct{ tabs *tabwriter.Writer }

// NewAligned makes an Aligned that writes to w.
func NewAligned(w io.Writer) *Aligned {
	return &Aligned{tabs: tabwriter.NewWriter(w, 6, 4, 3, ' ', tabwriter.RememberWidths)}
}

// Write takes lines whose cells end with tabs.
func (a *Aligned) Write(p []byte) (int, error) { return a.tabs.Write(p) }

// Flush writes what was taken.
func (a *Aligned) Flush() error { return a.tabs.Flush() }

// aligned calls write with a writer that aligns columns: w itself if it does.
func aligned(w io.Writer, write func(io.Writer) error) error {
	if _, ok := w.(*Aligned); ok {
		return write(w)
	}
	a := NewAligned(w)
	return errors.Join(write(a), a.Flush())
}

// escape shows characters that would control a terminal.
func escape(text string) string {
	return strings.NewReplacer("\x1b", "^[", "\r", "\\r").Replace(text)
}

// cellText is one line of a cell, with a sign where there is more.
func cellText(text string) string {
	if at := strings.IndexAny(text, "\f\n\r"); at >= 0 {
		return escape(text[:at]) + "..."
	}
	return escape(text)
}

// tablePrinter shows the tables of servers, and other objects by name and age.
type tablePrinter struct {
	options Table
	wide    bool

	columns []metav1.TableColumnDefinition // of the last table that had some
	headed  bool                           // they were written
	shown   form                           // of the last object that is no table
}

// form is how an object that is no table is shown.
type form int

const (
	noForm form = iota
	nameAndAge
	statusOfServer
)

func (p *tablePrinter) Print(w io.Writer, obj runtime.Object) error {
	event := ""
	if e, ok := obj.(*metav1.WatchEvent); ok {
		event, obj = e.Type, e.Object.Object
	}
	table, err := asTable(obj)
	if err != nil {
		return err
	}
	return aligned(w, func(w io.Writer) error {
		if table != nil {
			return p.table(w, table, event)
		}
		return p.object(w, obj, event)
	})
}

// asTable is a table of its own for what a server sent as one; nil when it is none.
func asTable(obj runtime.Object) (*metav1.Table, error) {
	table := &metav1.Table{}
	switch o := obj.(type) {
	case *metav1.Table:
		*table = *o
	case *unstructured.Unstructured:
		gvk := o.GroupVersionKind()
		if gvk.Kind != "Table" || gvk.Group != metav1.GroupName || gvk.Version != "v1" && gvk.Version != "v1beta1" {
			return nil, nil
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, table); err != nil {
			return nil, err
		}
	default:
		return nil, nil
	}
	table.Rows = slices.Clone(table.Rows)
	for i := range table.Rows {
		row := &table.Rows[i].Object
		if row.Object != nil || row.Raw == nil {
			continue
		}
		var err error
		if row.Object, err = runtime.Decode(unstructured.UnstructuredJSONScheme, row.Raw); err != nil {
			return nil, fmt.Errorf("the object of row %d: %w", i, err)
		}
	}
	return table, nil
}

func (p *tablePrinter) table(w io.Writer, table *metav1.Table, event string) error {
	noHeaders := p.options.NoHeaders
	if len(table.ColumnDefinitions) == 0 || reflect.DeepEqual(table.ColumnDefinitions, p.columns) {
		noHeaders = noHeaders || p.headed
		table.ColumnDefinitions = p.columns // servers leave them out of later events
	} else {
		p.columns, p.headed = table.ColumnDefinitions, false
	}
	if len(table.Rows) > 0 {
		p.headed = true
	}
	s := p.sheet(table)
	if event != "" {
		s.prepend("Event", func(int) any { return eventText(event) })
	}
	return s.write(w, !noHeaders)
}

// sheet is a table with the columns that were asked for.
func (p *tablePrinter) sheet(table *metav1.Table) *sheet {
	s := &sheet{}
	nameColumn := -1
	for i, c := range table.ColumnDefinitions {
		if nameColumn < 0 && c.Format == "name" && c.Type == "string" {
			nameColumn = i
		}
		s.names, s.hidden = append(s.names, c.Name), append(s.hidden, c.Priority != 0 && !p.wide)
	}
	withKind := p.kindPrefix() != "" && nameColumn >= 0
	var metas []metav1.Object
	for _, row := range table.Rows {
		cells := slices.Clone(row.Cells)
		if withKind && nameColumn < len(cells) {
			cells[nameColumn] = p.kindPrefix() + fmt.Sprint(cells[nameColumn])
		}
		s.rows = append(s.rows, cells)
		m, err := meta.Accessor(row.Object.Object)
		if err != nil {
			m = nil // the server sent no object with the row
		}
		metas = append(metas, m)
	}
	if p.options.Namespaces {
		s.prepend("Namespace", func(row int) any {
			if metas[row] == nil {
				return nil
			}
			return metas[row].GetNamespace()
		})
	}
	for _, name := range p.labelNames() {
		s.names, s.hidden = append(s.names, name), append(s.hidden, false)
	}
	if len(p.options.Labels) == 0 && !p.options.ShowLabels && !p.options.Namespaces && !withKind {
		return s
	}
	for i, m := range metas {
		if m == nil {
			for j := 0; j < len(s.names)-len(s.rows[i]); j++ { // it ends early, as kubectl's
				s.rows[i] = append(s.rows[i], nil)
			}
			continue
		}
		for _, value := range p.labelValues(m) {
			s.rows[i] = append(s.rows[i], value)
		}
	}
	return s
}

// kindPrefix stands before names.
func (p *tablePrinter) kindPrefix() string {
	if !p.options.ShowKind || p.options.Kind.Empty() {
		return ""
	}
	return strings.ToLower(p.options.Kind.String()) + "/"
}

// labelNames are the headers of the columns about labels.
func (p *tablePrinter) labelNames() []string {
	var names []string
	for _, label := range p.options.Labels {
		names = append(names, strings.ToUpper(label[strings.LastIndex(label, "/")+1:]))
	}
	if p.options.ShowLabels {
		names = append(names, "LABELS")
	}
	return names
}

// labelValues are the cells of the columns about labels.
func (p *tablePrinter) labelValues(m metav1.Object) []string {
	set := m.GetLabels()
	var values []string
	for _, label := range p.options.Labels {
		values = append(values, set[label])
	}
	if p.options.ShowLabels {
		values = append(values, labels.FormatLabels(set))
	}
	return values
}

// eventText is as wide for every type of event.
func eventText(event string) string {
	switch watch.EventType(event) {
	case watch.Added, watch.Modified, watch.Deleted, watch.Error:
		return fmt.Sprintf("%-8s", event)
	}
	return event
}

// sheet is a table to write. A row may be longer or shorter than the headers.
type sheet struct {
	names  []string
	hidden []bool // columns
	rows   [][]any
}

func (s *sheet) prepend(name string, cell func(row int) any) {
	s.names, s.hidden = append([]string{name}, s.names...), append([]bool{false}, s.hidden...)
	for i := range s.rows {
		s.rows[i] = append([]any{cell(i)}, s.rows[i]...)
	}
}

func textOf(cell any) string {
	if cell == nil {
		return ""
	}
	return fmt.Sprint(cell)
}

// widths are how many bytes the widest cell of each column has. The first line is filled up to
// them: the columns of what is flushed later are to stand below those of what was flushed before.
func (s *sheet) widths() []int {
	widths := make([]int, len(s.names))
	for _, row := range s.rows {
		for i, cell := range row[:min(len(row), len(widths))] {
			widths[i] = max(widths[i], len(textOf(cell)))
		}
	}
	return widths
}

func (s *sheet) write(w io.Writer, headers bool) error {
	if len(s.rows) == 0 {
		return nil
	}
	widths := s.widths()
	if headers {
		if err := s.line(w, widths, len(s.names), func(i int) (shown string, width int) {
			name := strings.ToUpper(s.names[i])
			return name, len(name)
		}); err != nil {
			return err
		}
		widths = nil
	}
	for n, row := range s.rows {
		if err := s.line(w, widths, len(row), func(i int) (shown string, width int) {
			text := textOf(row[i])
			return cellText(text), len(text)
		}); err != nil {
			return err
		}
		widths = nil
		if a, ok := w.(*Aligned); ok && (n+1)%flushRows == 0 {
			if err := a.Flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// line writes the visible ones of some cells. Those before the last column are filled up to the
// widths, if there are any.
func (s *sheet) line(w io.Writer, widths []int, cells int, cell func(i int) (shown string, width int)) error {
	last := len(s.hidden) - 1
	for last >= 0 && s.hidden[last] {
		last--
	}
	var parts []string
	for i := range min(cells, len(s.names)) {
		if s.hidden[i] {
			continue
		}
		text, width := cell(i)
		if widths != nil && i != last {
			text += strings.Repeat(" ", max(0, widths[i]-width))
		}
		parts = append(parts, text)
	}
	_, err := io.WriteString(w, strings.Join(parts, "\t")+"\n")
	return err
}

// object shows what is no table.
func (p *tablePrinter) object(w io.Writer, obj runtime.Object, event string) error {
	shown, headers := nameAndAge, []string{"NAME", "AGE"}
	if _, ok := obj.(*metav1.Status); ok {
		shown, headers = statusOfServer, []string{"STATUS", "REASON", "MESSAGE"}
	}
	if !p.options.NoHeaders && p.shown != shown {
		before := ""
		if p.shown != noForm {
			before = "\n"
		}
		headers = append(headers, p.labelNames()...)
		if p.options.Namespaces {
			headers = append([]string{"NAMESPACE"}, headers...)
		}
		if event != "" {
			headers = append([]string{"EVENT"}, headers...)
		}
		if _, err := io.WriteString(w, before+strings.Join(headers, "\t")+"\n"); err != nil {
			return err
		}
	}
	p.shown = shown
	if meta.IsListType(obj) {
		return meta.EachListItem(obj, func(item runtime.Object) error { return p.objectRow(w, item, event) })
	}
	return p.objectRow(w, obj, event)
}

func (p *tablePrinter) objectRow(w io.Writer, obj runtime.Object, event string) error {
	var cells []string
	if event != "" {
		cells = append(cells, eventText(event))
	}
	if status, ok := obj.(*metav1.Status); ok {
		if p.options.Namespaces {
			cells = append(cells, "")
		}
		cells = append(cells, p.kindPrefix()+status.Status, string(status.Reason), status.Message)
		return writeCells(w, cells)
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	if p.options.Namespaces {
		cells = append(cells, m.GetNamespace())
	}
	cells = append(cells, p.kindPrefix()+m.GetName(), age(m.GetCreationTimestamp()))
	return writeCells(w, append(cells, p.labelValues(m)...))
}

func writeCells(w io.Writer, cells []string) error {
	_, err := io.WriteString(w, strings.Join(cells, "\t")+"\n")
	return err
}

func age(since metav1.Time) string {
	if since.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(time.Since(since.Time))
}

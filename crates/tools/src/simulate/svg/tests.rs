use super::*;

fn lines() -> Chart {
    let line = |name: &str, shape| Line {
        name: name.to_owned(),
        points: vec![(0.0, 60.0), (400.0, 108.0), (1000.0, 200.0)],
        shape,
    };
    Chart {
        title: "what <\"naive\"> & others admit\u{7}".to_owned(),
        x: "interval, ms".to_owned(),
        y: "admitted".to_owned(),
        mark: Some(("limit".to_owned(), 60.0)),
        plot: Plot::Lines(vec![
            line("formula", Shape::Straight),
            line("simulated", Shape::Dots),
            line("store", Shape::Steps),
        ]),
    }
}

#[test]
fn what_xml_would_take_for_something_else_is_escaped() {
    let svg = lines().to_svg();
    assert!(svg.contains("what &lt;&quot;naive&quot;&gt; &amp; others admit </text>"), "{svg}");
    assert!(!svg.contains('\u{7}'));
}

#[test]
fn a_line_goes_from_value_to_value_and_steps_go_over_and_up() {
    let svg = lines().to_svg();
    // 200 of 200 stands at the top, 1000 of 1000 at the right.
    assert!(svg.contains("L730.0 92.0\""), "{svg}");
    assert!(svg.contains("H730.0V92.0\""), "{svg}");
    assert_eq!(svg.matches("<circle").count(), 3);
    assert!(svg.contains(">limit</text>") && svg.contains(">simulated</text>"));
}

#[test]
fn a_picture_grows_with_its_bars() {
    let height = |count: usize| {
        let group = |n: usize| Group { name: format!("g{n}"), values: vec![1.0, 2.0] };
        let groups = (0..count).map(group).collect();
        let series = vec!["own clocks".to_owned(), "the store's clock".to_owned()];
        let (title, x, y) = (String::new(), String::new(), String::new());
        let svg = Chart { title, x, y, mark: None, plot: Plot::Bars { series, groups } }.to_svg();
        assert_eq!(svg.matches("<rect class=\"c").count(), 2 * count);
        assert!(svg.contains(">own clocks</text>"), "{svg}");
        let (_, rest) = svg.split_once("viewBox=\"0 0 760 ").unwrap();
        rest.split_once('"').unwrap().0.parse::<u32>().unwrap()
    };
    assert_eq!(height(3) - height(2), 52);
}

#[test]
fn nothing_to_draw_is_still_a_picture() {
    let empty = Chart { plot: Plot::Lines(vec![]), ..lines() };
    assert!(empty.to_svg().ends_with("</svg>\n"));
}
